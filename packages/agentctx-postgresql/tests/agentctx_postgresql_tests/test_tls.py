"""TLS to a real server with a test CA: the server is verified, and nobody else gets the password."""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from agentctx.errors import AgentctxError, ConfigInvalid, StorageFailed
from agentctx_postgresql.driver import Server
from agentctx_postgresql.engine import PostgresqlStorage
from agentctx_postgresql_tests.clients import save
from agentctx_postgresql_tests.server import GUARDED, RunningServer, running_server, why_unavailable
from agentctx_postgresql_tests.test_connections import relay
from tests.end_to_end.daemon_process import DaemonProcess

PASSWORD = "hush-4711"  # noqa: S105 - for a server that exists only during the tests
SSL_REQUEST = bytes((0, 0, 0, 8, 4, 210, 22, 47))
WAIT_S = 60
YEAR = dt.timedelta(days=365)


def issue_certificate(
    name: str, key: ec.EllipticCurvePrivateKey, ca: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    """Issue a certificate for a host; if both keys are the same, the CA's own."""
    now = dt.datetime.now(dt.UTC)
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test CA")])
    is_ca = key is ca
    subject = issuer if is_ca else x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - YEAR)
        .not_valid_after(now + YEAR)
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
    )
    if not is_ca:
        names = [x509.DNSName(name)]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(ca, hashes.SHA256())


class TlsGate:
    """Terminates TLS in a thread, since the tests' server is built without it; counts handshakes."""

    def __init__(self, server: RunningServer, tls: ssl.SSLContext) -> None:
        self.address = ""
        self.upgraded = 0
        self._socket = f"{server.folder}/.s.PGSQL.5432"
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._is_open = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._is_open.wait(WAIT_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(WAIT_S)
        self._loop.close()

    async def _serve(self) -> None:
        async with await asyncio.start_server(self._take, "127.0.0.1", 0) as gate:
            self.address = f"localhost:{gate.sockets[0].getsockname()[1]}"
            self._is_open.set()
            await self._stop.wait()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            assert await reader.readexactly(8) == SSL_REQUEST
            writer.write(b"S")
            await writer.start_tls(self._tls)
            self.upgraded += 1
            at_server, to_server = await asyncio.open_unix_connection(self._socket)
            await asyncio.gather(relay(reader, to_server), relay(at_server, writer))
        except (OSError, asyncio.IncompleteReadError):
            writer.close()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TlsGate, Path]]:
    """A server reachable by TLS as `localhost`, and the file of its CA."""
    if reason := why_unavailable():
        pytest.skip(reason)
    ca = ec.generate_private_key(ec.SECP256R1())
    key = ec.generate_private_key(ec.SECP256R1())
    folder = tmp_path_factory.mktemp("tls")
    authority, certificate = folder / "ca.pem", folder / "server.pem"
    authority.write_bytes(issue_certificate("", ca, ca).public_bytes(serialization.Encoding.PEM))
    certificate.write_bytes(
        issue_certificate("localhost", key, ca).public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    with running_server() as server:
        server.sql(f"CREATE EXTENSION vector; CREATE ROLE {GUARDED} LOGIN SUPERUSER PASSWORD '{PASSWORD}'")
        with TlsGate(server, tls) as gate:
            yield gate, authority


async def open_storage(url: str, password: str = PASSWORD) -> PostgresqlStorage:
    return await PostgresqlStorage.open(Server(url=url, password=password), daemon="a")


async def refusal(url: str, password: str = PASSWORD) -> AgentctxError:
    with pytest.raises(ConfigInvalid) as caught:
        await open_storage(url, password)
    assert PASSWORD not in f"{caught.value!r} {caught.value.hint}"
    return caught.value


async def test_a_server_with_a_certificate_of_the_configured_ca_is_accepted(
    secured: tuple[TlsGate, Path],
) -> None:
    gate, authority = secured
    url = f"postgresql://{GUARDED}@{gate.address}/postgres?sslmode=verify-full&sslrootcert={authority}"
    storage = await open_storage(url)
    try:
        assert await storage.entries.get(await save(storage, "text")) is not None
        assert gate.upgraded > 0
    finally:
        await storage.close()


async def test_another_ca_or_host_name_is_refused(secured: tuple[TlsGate, Path], tmp_path: Path) -> None:
    gate, authority = secured
    stranger = ec.generate_private_key(ec.SECP256R1())
    other = tmp_path / "other.pem"
    other.write_bytes(issue_certificate("", stranger, stranger).public_bytes(serialization.Encoding.PEM))
    by_number = gate.address.replace("localhost", "127.0.0.1")
    for url in (
        f"postgresql://{GUARDED}@{gate.address}/postgres",
        f"postgresql://{GUARDED}@{gate.address}/postgres?sslmode=verify-full&sslrootcert={other}",
        f"postgresql://{GUARDED}@{by_number}/postgres?sslmode=verify-full&sslrootcert={authority}",
    ):
        error = await refusal(url)
        assert "is not trusted, or is not for this host" in error.message


async def test_a_wrong_password_is_refused_and_never_shown(secured: tuple[TlsGate, Path]) -> None:
    gate, authority = secured
    url = f"postgresql://{GUARDED}@{gate.address}/postgres?sslmode=verify-full&sslrootcert={authority}"
    error = await refusal(url, password=f"not {PASSWORD}")
    assert "rejects the user or the password" in error.message


async def test_a_server_without_tls_is_refused() -> None:
    async def refuse_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(8)
        writer.write(b"N")
        await writer.drain()
        seen.append(await reader.read())
        writer.close()

    seen: list[bytes] = []
    async with await asyncio.start_server(refuse_tls, "127.0.0.1", 0) as plain:
        port = plain.sockets[0].getsockname()[1]
        with pytest.raises(StorageFailed, match="does not answer") as caught:
            await open_storage(f"postgresql://{GUARDED}@127.0.0.1:{port}/postgres")
    assert "TLS" in caught.value.hint
    assert not any(seen), "nothing was sent in the clear"


@pytest.fixture
def daemon(secured: tuple[TlsGate, Path], tmp_path: Path) -> Iterator[DaemonProcess]:
    gate, authority = secured
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\nnot the password\n")
    url = f"postgresql://{GUARDED}@{gate.address}/postgres?sslmode=verify-full&sslrootcert={authority}"
    config = f'[storage]\nurl = "{url}"\npassword_file = "{file}"\n[embedding]\nprovider = "fake"\n'
    daemon = DaemonProcess(tmp_path, config=config)
    yield daemon
    daemon.end()


def test_a_password_from_a_file_is_in_no_output(daemon: DaemonProcess) -> None:
    with daemon.start().client() as client:
        client.save_observation("s", "It travels over TLS.")
        outputs = [client.status(), client.doctor(), client.list()]
    assert daemon.stop() == 0
    shown = f"{outputs} {daemon.log}"
    assert "localhost" in shown
    assert PASSWORD not in shown
