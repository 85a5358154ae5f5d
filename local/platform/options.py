"""The options of a platform: ports, folders, settings; and the addresses that follow from the ports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

#: The account and key built into Azurite; published by Microsoft, not secret.
_STORAGE_ACCOUNT = "devstoreaccount1"
_STORAGE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass(frozen=True, slots=True)
class PlatformPorts:
    """One TCP port on 127.0.0.1 for each endpoint; in a request, 0 means any free port.

    With ports of `scheduler`, `agents` and `supervisor`, these roles have hosts of their own, and `host` is
    the front's. With ports of further hosts, all of them run the whole application.
    """

    host: int = 7071
    service_bus: int = 5672
    admin: int = 5300
    blob: int = 10000
    queue: int = 10001
    table: int = 10002
    scheduler: int | None = None
    agents: int | None = None
    supervisor: int | None = None
    host_2: int | None = None
    host_3: int | None = None
    host_4: int | None = None

    @property
    def hosts(self) -> list[int]:
        """The ports of the hosts that run the whole application, or its front."""
        return [port for port in (self.host, self.host_2, self.host_3, self.host_4) if port is not None]

    def with_hosts(self, count: int) -> PlatformPorts:
        """Add free ports for `count` hosts in sum, at most four."""
        second, third, fourth = (0 if number <= count else None for number in (2, 3, 4))
        return replace(self, host_2=second, host_3=third, host_4=fourth)

    @property
    def are_split(self) -> bool:
        """Whether each role has a host of its own."""
        return self.supervisor is not None

    def split(self) -> PlatformPorts:
        """Add ports for the hosts of roles; the operators' follows the callers'."""
        return replace(self, scheduler=0, agents=0, supervisor=self.host + 1 if self.host else 0)


#: Ports for platforms that run side by side, as tests do.
ANY_PORTS = PlatformPorts(host=0, service_bus=0, admin=0, blob=0, queue=0, table=0)


@dataclass(frozen=True, slots=True)
class PlatformOptions:
    """What to start, and where it keeps its state.

    `settings` are application settings that override every file and the environment. `queues` is the
    broker's configuration; without one it is the app's `infra/queues.json`, and without that the queues that
    the app's bindings name. Event hubs are those of the app's `infra/hubs.json`. With `in_memory_storage`,
    Azurite saves nothing, and the state of all parts is deleted at the next start. With `function_keys`, by
    function and name, the host requires keys, these or its own. With `expire_on_receive`, an expired message
    stays in its queue until a receiver requests messages, as Azure permits.
    """

    ports: PlatformPorts = field(default_factory=PlatformPorts)
    data: Path = Path(".local")
    app: Path = Path()
    settings: Mapping[str, str] = field(default_factory=dict)
    queues: Path | None = None
    in_memory_storage: bool = False
    expire_on_receive: bool = False
    function_keys: Mapping[str, Mapping[str, str]] | None = field(default=None, repr=False)

    @property
    def state(self) -> Path:
        """Folder in which each part has a folder of its own."""
        return self.data / "in-memory" if self.in_memory_storage else self.data


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses of the running parts, none with a slash at the end."""

    ports: PlatformPorts

    @property
    def host(self) -> str:
        """Address of the Functions host."""
        return f"http://127.0.0.1:{self.ports.host}"

    @property
    def hosts(self) -> list[str]:
        """Addresses of all hosts that run the whole application; `host` is the first."""
        return [f"http://127.0.0.1:{port}" for port in self.ports.hosts]

    @property
    def operators(self) -> str:
        """Address of the host that serves operators."""
        ports = self.ports
        return self.host if ports.supervisor is None else f"http://127.0.0.1:{ports.supervisor}"

    @property
    def services(self) -> str:
        """Address of the sample remote services, which the host serves too."""
        return f"{self.host}/api/services"

    @property
    def service_bus(self) -> str:
        """Address of the broker's AMQP endpoint."""
        return f"sb://127.0.0.1:{self.ports.service_bus}"

    @property
    def admin(self) -> str:
        """Address of the broker's administration: queue figures and fault injection."""
        return f"http://127.0.0.1:{self.ports.admin}"

    @property
    def table(self) -> str:
        """Address of Azurite's table service."""
        return f"http://127.0.0.1:{self.ports.table}"

    @property
    def service_bus_connection(self) -> str:
        """Connection string for the unmodified azure-servicebus client."""
        credentials = "SharedAccessKeyName=local;SharedAccessKey=local;UseDevelopmentEmulator=true"
        return f"Endpoint={self.service_bus};{credentials}"

    @property
    def storage_connection(self) -> str:
        """Connection string for the unmodified storage clients."""
        account = f"AccountName={_STORAGE_ACCOUNT};AccountKey={_STORAGE_KEY};"
        ports = {"Blob": self.ports.blob, "Queue": self.ports.queue, "Table": self.ports.table}
        services = (
            f"{name}Endpoint=http://127.0.0.1:{port}/{_STORAGE_ACCOUNT};" for name, port in ports.items()
        )
        return f"DefaultEndpointsProtocol=http;{account}{''.join(services)}"
