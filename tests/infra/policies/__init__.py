"""Policies for the templates. A policy yields one message for each place that violates it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.infra.infrastructure import Infrastructure
from tests.infra.policies import access, form, platform, references, secrets, settings, storage, transport

type Policy = Callable[[Infrastructure], Iterator[str]]

POLICIES: tuple[Policy, ...] = (
    access.keys_and_passwords_are_off,
    access.passwords_are_off_for_ftp_and_scm,
    access.nothing_is_public_in_storage,
    access.roles_are_narrow,
    access.owner_is_for_the_host_only,
    access.queues_may_be_used_as_the_code_does,
    transport.transport_is_encrypted,
    transport.private_network_closes_the_rest,
    transport.sign_in_guards_all_but_health,
    secrets.keys_are_never_read,
    secrets.outputs_hold_no_secret,
    secrets.outputs_use_no_secure_parameter,
    secrets.settings_hold_no_secret,
    secrets.secrets_are_secure_parameters,
    secrets.parameters_that_sound_secret_are_secure,
    storage.every_listed_queue_is_declared,
    storage.queues_detect_duplicates,
    storage.queues_bound_their_messages,
    storage.tables_are_declared,
    storage.state_is_replicated_as_chosen,
    settings.every_known_setting_is_set,
    settings.no_unknown_setting_is_set,
    settings.application_starts_with_its_settings,
    settings.agents_call_the_samples,
    settings.agents_send_the_key_of_the_samples,
    settings.references_to_secrets_name_a_version,
    settings.callers_are_identified_by_sign_in_only,
    settings.connections_are_set,
    settings.references_are_set,
    settings.host_json_fits_the_durable_backend,
    form.everything_is_described,
    form.numbers_are_bounded,
    form.bounds_hold_in_modules,
    form.files_are_short,
    form.modules_are_files_here,
    form.every_file_is_used,
    form.every_parameter_is_used,
    form.versions_are_listed,
    references.names_are_declared,
    references.imported_names_are_exported,
    references.modules_get_their_parameters,
    references.outputs_that_are_read_exist,
    platform.flex_consumption_supports_every_property,
    platform.deployments_can_be_repeated,
    platform.deployments_have_names_of_their_own,
    platform.private_endpoints_are_deployed_one_by_one,
    platform.azd_finds_what_it_looks_for,
)
