"""The accounts of a state store are checked at start: each must be the one that the map means."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import pytest
import pytest_asyncio
from azure.core.exceptions import ResourceExistsError, ServiceResponseError
from azure.data.tables import TableClient, UpdateMode

from functions.connections import Connection
from functions.pattern.errors import SettingsError
from functions.store import shard_move
from functions.store.accounts import load_accounts, prepare_accounts
from functions.store.connect import connect_at_start
from functions.store.keys import ACCOUNT_ROW, SHARD_MAP_ROW, SHARDS_PARTITION
from functions.store.shard_map import ShardMap, map_of
from functions.store.tables import TASKS_TABLE
from local import move_shard
from tests.fakes.settings import settings_with
from tests.integration.azurite import running_azurite

pytestmark = pytest.mark.process

_SHARDS = 4


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def another(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Connection]:
    """Run a second Azurite."""
    async with running_azurite(tmp_path_factory.mktemp("another")) as connection_string:
        yield Connection(connection_string, None, None)


@pytest.fixture
def accounts(connection: Connection, another: Connection) -> Iterator[list[Connection]]:
    """Give two accounts without tables, and delete theirs afterwards."""
    yield [connection, another]
    for each in (connection, another):
        with connect_at_start(each) as service:
            service.delete_table(TASKS_TABLE)


def _start(accounts: list[Connection], shards: int = _SHARDS) -> None:
    numbered = {f"StateStore__{number}": str(each.connection_string) for number, each in enumerate(accounts)}
    prepare_accounts(load_accounts(numbered, settings_with()), (TASKS_TABLE,), shards)


def _start_alone(account: Connection) -> None:
    prepare_accounts((account,), (TASKS_TABLE,), _SHARDS)


def _map(account: Connection) -> ShardMap:
    with connect_at_start(account) as service:
        return map_of(service.get_table_client(TASKS_TABLE).get_entity(SHARDS_PARTITION, SHARD_MAP_ROW))


def _refusal(accounts: list[Connection]) -> str:
    with pytest.raises(SettingsError) as refusal:
        _start(accounts)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


def test_shards_of_a_new_store_are_spread_over_its_accounts(accounts: list[Connection]) -> None:
    """A second start changes nothing."""
    _start(accounts)
    written = _map(accounts[0])
    assert written.accounts == (0, 1, 0, 1)
    _start(accounts)
    assert _map(accounts[0]) == written


@pytest.mark.parametrize("done", [True, False], ids=["done", "not done"])
@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_first_start_that_ends_at_any_of_its_writes_is_gone_on_with(
    accounts: list[Connection], monkeypatch: pytest.MonkeyPatch, at: int, *, done: bool
) -> None:
    """The next one, or another instance's at the same time, does not take the store for an older one."""
    left, create = at, TableClient.create_entity

    def crash(table: TableClient, entity: Any) -> Any:
        nonlocal left
        left -= 1
        if left != 0:
            return create(table, entity)
        with suppress(ResourceExistsError):
            if done:
                create(table, entity)
        raise ServiceResponseError("no answer")

    with monkeypatch.context() as broken:
        broken.setattr(TableClient, "create_entity", crash)
        with pytest.raises(SettingsError):
            _start(accounts)
    _start(accounts)
    assert _map(accounts[0]).accounts == (0, 1, 0, 1)


def test_shards_of_an_older_store_stay_in_its_account(accounts: list[Connection]) -> None:
    """Its tasks are there; a shard goes elsewhere only when it is moved."""
    _start_alone(accounts[0])
    _start(accounts)
    assert _map(accounts[0]).accounts == (0,) * _SHARDS


def test_wrong_map_is_refused_in_one_line(accounts: list[Connection]) -> None:
    """Accounts in another order, the same one twice, one that is missing, one of another state store."""
    _start(accounts)
    first, second = accounts
    assert "StateStore__0 leads to account 1 of a state store" in _refusal([second, first])
    assert "StateStore__1 leads to account 0 of a state store" in _refusal([first, first])
    assert "setting StateStore__1 is missing" in _refusal([first])
    with pytest.raises(SettingsError, match="setting StateStore__1 is missing"):
        _start_alone(first)
    with pytest.raises(SettingsError, match="leads to account 1 of a state store"):
        _start_alone(second)
    with connect_at_start(first) as service:
        service.get_table_client(TASKS_TABLE).delete_entity(SHARDS_PARTITION, SHARD_MAP_ROW)
        service.get_table_client(TASKS_TABLE).delete_entity(SHARDS_PARTITION, ACCOUNT_ROW)
    assert "StateStore__1 leads to account 1 of another state store" in _refusal(accounts)


def test_empty_account_does_not_take_the_place_of_one_with_shards(accounts: list[Connection]) -> None:
    """Its tasks would be hidden, and orders that it knows be taken for new."""
    _start(accounts)
    with connect_at_start(accounts[1]) as service:  # as if another one were set
        table = service.get_table_client(TASKS_TABLE)
        mark = table.get_entity(SHARDS_PARTITION, ACCOUNT_ROW)
        table.delete_entity(SHARDS_PARTITION, ACCOUNT_ROW)
        for _ in range(2):
            assert "StateStore__1 leads to an account without the shards" in _refusal(accounts)
        table.create_entity(mark)
    _start(accounts)


def test_account_without_shards_is_one_like_any_other(accounts: list[Connection]) -> None:
    """It may be set before anything is moved there, or again, empty, when nothing is left in it."""
    _start_alone(accounts[0])
    for _ in range(2):
        _start(accounts)
        with connect_at_start(accounts[1]) as service:
            service.get_table_client(TASKS_TABLE).delete_entity(SHARDS_PARTITION, ACCOUNT_ROW)
    _start(accounts)


def test_older_store_is_no_second_account_of_a_new_one(accounts: list[Connection]) -> None:
    """Its tasks would be hidden behind an empty account, and orders that it knows be taken for new."""
    empty, older = accounts
    _start_alone(older)
    assert "StateStore__1 leads to the first account of another state store" in _refusal([empty, older])
    _start([older, empty])
    assert _map(older).accounts == (0,) * _SHARDS


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"Schema": 2}, "has schema 2, and this version reads 1: deploy the version that wrote it"),
        ({"Schema": None}, "has schema None"),
        ({"Accounts": None}, "is damaged"),
        ({"Accounts": "0,one,0,1"}, "is damaged"),
        ({"Accounts": "0,1"}, "names 2 shards, and there are 4"),
    ],
)
def test_map_that_is_not_understood_is_refused_in_one_line(
    accounts: list[Connection], changed: dict[str, object], said: str
) -> None:
    """It may be another version's, or damaged: nobody guesses where a shard is."""
    _start(accounts)
    with connect_at_start(accounts[0]) as service:
        table = service.get_table_client(TASKS_TABLE)
        row = table.get_entity(SHARDS_PARTITION, SHARD_MAP_ROW) | changed
        table.update_entity(
            {name: each for name, each in row.items() if each is not None}, UpdateMode.REPLACE
        )
    assert said in _refusal(accounts)


def test_shard_is_moved_by_a_command(
    accounts: list[Connection], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It takes the accounts from the environment, and says what it did or what is wrong."""
    for pause in ("SETTLES", "LATEST"):
        monkeypatch.setattr(shard_move, pause, 0)
    monkeypatch.delenv("StateStore", raising=False)
    for number, account in enumerate(accounts):
        monkeypatch.setenv(f"StateStore__{number}", str(account.connection_string))
    _start(accounts)
    assert move_shard.main(["2", "1"]) == 0
    assert "shard 2 is in account 1; 0 rows were copied" in capsys.readouterr().out
    assert _map(accounts[0]).accounts == (0, 1, 1, 1)
    assert move_shard.main(["4", "1"]) == 2
    assert capsys.readouterr().err == "there is no shard 4: they are numbered 0 to 3\n"


# The SDK tests the truth value of an XML element when it reads a 403.
@pytest.mark.filterwarnings("ignore:Testing an element's truth value:DeprecationWarning")
def test_account_that_does_not_answer_is_named_by_its_setting(accounts: list[Connection]) -> None:
    """Of several, each has its own."""
    wrong = Connection(
        str(accounts[1].connection_string).replace("AccountKey=", "AccountKey=AAAA"), None, None
    )
    assert _refusal([accounts[0], wrong]).startswith("setting StateStore__1: Table Storage does not answer")


def test_numbers_have_no_gap_and_the_only_account_no_number() -> None:
    """Each mistake names its setting."""
    only = settings_with(StateStore="UseDevelopmentStorage=true")
    assert len(load_accounts({}, only)) == 1
    with pytest.raises(SettingsError, match="name the same account"):
        load_accounts({"StateStore__0": "a"}, only)
    with pytest.raises(SettingsError, match="setting StateStore__1 is missing"):
        load_accounts({"StateStore__0": "a", "StateStore__2__tableServiceUri": "https://b"}, settings_with())
    by_identity = {"StateStore__0__tableServiceUri": "https://a", "StateStore__0__clientId": "who"}
    assert load_accounts(by_identity, settings_with()) == (Connection(None, "https://a", "who"),)
