"""What every entity group transaction passes on its way: azure-core's own policies, and the shared key's."""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from email.utils import formatdate
from functools import lru_cache
from time import time
from typing import Any
from urllib.parse import urlsplit

from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.credentials_async import AsyncTokenCredential
from azure.core.pipeline import AsyncPipeline, PipelineRequest
from azure.core.pipeline.policies import (
    AsyncBearerTokenCredentialPolicy,
    AsyncHTTPPolicy,
    AsyncRetryPolicy,
    AzureSasCredentialPolicy,
    SansIOHTTPPolicy,
    UserAgentPolicy,
)
from azure.core.pipeline.transport import AsyncHttpTransport, HttpRequest

from functions.store.http_answers import TableAnswer

type Credential = AzureNamedKeyCredential | AzureSasCredential | AsyncTokenCredential
type GroupPipeline = AsyncPipeline[HttpRequest, TableAnswer]
type _Policy = AsyncHTTPPolicy[HttpRequest, TableAnswer] | SansIOHTTPPolicy[HttpRequest, Any]

_SCOPE = "https://storage.azure.com/.default"
_DATE = "x-ms-date"


def group_pipeline(
    transport: AsyncHttpTransport[HttpRequest, TableAnswer], credential: Credential, *, retries: int
) -> GroupPipeline:
    """Make a pipeline; each retry is dated and signed again."""
    policies: list[Any] = [  # azure-core types the user agent's for both kinds of pipelines
        UserAgentPolicy("scheduler-agent-supervisor"),
        AsyncRetryPolicy(retry_total=retries),
        DatePolicy(),
        _signing(credential),
    ]
    return AsyncPipeline(transport, policies)


def _signing(credential: Credential) -> _Policy:
    match credential:
        case AzureNamedKeyCredential():
            return SharedKeyPolicy(credential)
        case AzureSasCredential():
            return AzureSasCredentialPolicy(credential)
        case _:
            policy: Any = AsyncBearerTokenCredentialPolicy(credential, _SCOPE)  # typed for its own answers
            return policy  # type: ignore[no-any-return]


class DatePolicy(SansIOHTTPPolicy[HttpRequest, TableAnswer]):
    """Adds the time, which Table Storage demands of every signed request."""

    def on_request(self, request: PipelineRequest[HttpRequest]) -> None:
        """Add the header."""
        request.http_request.headers[_DATE] = _date_of(int(time()))


@lru_cache(maxsize=1)
def _date_of(second: int) -> str:
    return formatdate(second, usegmt=True)


class SharedKeyPolicy(SansIOHTTPPolicy[HttpRequest, TableAnswer]):
    """Signs with the account's key, as Table Storage wants it: not as blobs and queues are signed."""

    def __init__(self, credential: AzureNamedKeyCredential) -> None:
        super().__init__()
        self._credential = credential

    def on_request(self, request: PipelineRequest[HttpRequest]) -> None:
        """Add the signature of method, content type, time, account and path."""
        asked = request.http_request
        name, key = self._credential.named_key
        resource = f"/{name}{urlsplit(asked.url).path}"
        signed = f"{asked.method}\n\n{asked.headers['Content-Type']}\n{asked.headers[_DATE]}\n{resource}"
        signature = b64encode(hmac.digest(b64decode(key), signed.encode(), "sha256")).decode("ascii")
        asked.headers["Authorization"] = f"SharedKey {name}:{signature}"
