"""Lines without a secret that look like one: code, prose, hashes, ids, images, lock files."""

from __future__ import annotations

import base64
import random
import uuid

from tests.text.redaction.benign_lines import LINES
from tests.text.redaction.secrets import ALNUM, B64, HEX, Make, some

WRITTEN = [
    *LINES,
    *"""\
The password is rotated every 90 days by the on-call engineer.
const SECRET_HEADER = "x-acme-signature"
const AUTH_HEADER_SECRET = "stripe-signature"
secret_header: x-shop-webhook-hmac
SECRET_HEADER: "X-Shop-Hmac-Sha256"
PASSWORD_HASHER = "argon2id"
my password manager is Bitwarden
jdbc:mysql://h/db?passwordCharacterEncoding=UTF-8
jdbc:sqlserver://h;user=sa;password={DB_PASSWORD};encrypt=true
jdbc:mysql://h/db?user=a&password=${env.DB_PASSWORD}&x=1
jdbc:oracle:thin:@//db.example.com:1521/ORCL
seed phrase validation must check that there are twelve words and that the checksum of the last word fits
recovery: stop the service, copy the files, start the service, check the logs, tell the team
mnemonic words help people learn long lists such as planets, rivers or kings without much effort
Set the API key in your environment before you start the daemon.
Bearer authentication is required; basic auth was switched off in March.
We keep tokens in Vault, and the access key of the bucket in the keychain.
token_count: 12345, prompt_tokens=8191, completion_tokens=402
max_tokens=4096, temperature=0.2, top_p=1.0
def authenticate(username: str, password: str) -> Token:
    password = getpass.getpass("Password: ")
    token = secrets.token_urlsafe(32)
    api_key = os.environ["OPENAI_API_KEY"]
    secret = settings.database.password2
    password=config.get("db", "password"), token=self._token1,
    access_token = response.json()["access_token"]
    self.api_key = api_key or os.getenv("STRIPE_API_KEY")
const apiKey = process.env.ANTHROPIC_API_KEY;
const token = await getToken({ audience: "https://api.example.com" });
password: ${DB_PASSWORD}
api_key: <your-api-key>
api_key = "YOUR_API_KEY_1234567890"
export GITHUB_TOKEN=ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
export OPENAI_API_KEY=sk-...
Authorization: Bearer $TOKEN
curl -H "Authorization: Bearer ${TOKEN}" https://api.example.com/v1/models
curl -u "$USER:$PASSWORD" https://example.com
secretKeyRef: { name: db-credentials, key: password }
password: {{ .Values.postgres.password }}
secret: projects/12345/secrets/db-password/versions/latest
tokenizer = AutoTokenizer.from_pretrained("sentence-transformers/all-MiniLM-L6-v2")
postgres://localhost:5432/app
postgresql://app@db.internal:5432/app?sslmode=require
redis://cache:6379/0
https://packages.example.com/@types/node/-/node-20.11.5.tgz
https://user@example.com/path and git@github.com:octo/repo.git
http://[::1]:8080/@scope/package
<button class="sk-spinner sk-spinner-wave pa-4 key-value">Save</button>
import sklearn; from task_runner import disk_usage
The SKU of the desk is SK1234567890 and its colour is asia-green.
AKIA is the prefix of access key ids, ASIA of temporary ones.
A JWT begins with eyJ, since that is {" in Base64.
-----BEGIN CERTIFICATE-----
-----BEGIN PUBLIC KEY-----
A file that begins with -----BEGIN PRIVATE KEY----- is one to look after.
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me@laptop
Basic usage: run the daemon, save something, search for it.
The basic dXNlcg example shows one word of Base64.
machine learning with login pages and password managers
pwd: /home/me/projects/agentctx-2026/src
AWS_REGION=eu-central-1 AWS_PROFILE=production2
arn:aws:iam::123456789012:role/service-role/AWSLambdaBasicExecutionRole
arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db-AbCdEf
commit 4b825dc642cb6eb9a060e54bf8d69288fbee4904 (HEAD -> main, tag: v1.2.3)
Merge pull request #1234 from octo/fix-token-refresh-2
2026-02-03T04:05:06.789Z INFO request_id=01936f7e-5a3c-7c1d-9b2e-1f2a3b4c5d6e path=/v1/entries 201 3ms
ERROR: password authentication failed for user "app1" at 10.0.0.12:5432
TypeError: Cannot read properties of undefined (reading 'accessToken')
color: #deadbeef; src: url(data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7)
sig=abc&se=1 is not a signature; ?v=dQw4w9WgXcQ&t=42s is a video
phone +49 30 123456:AAA, room 12345678:AAB
ISBN 978-3-16-148410-0, IBAN DE89 3704 0044 0532 0130 00, card ending in 4242
SELECT id, password_hash FROM users WHERE api_token IS NULL AND secret = ?
ALTER TABLE users ADD COLUMN access_token VARCHAR(255) NOT NULL DEFAULT ''
assert redact("password=[redacted:password]") == "password=[redacted:password]"
""".splitlines(),
]

_WORDS = [
    *("the", "token", "of", "a", "session", "is", "refreshed", "when", "secret", "rotation", "runs", "and"),
    *("access", "to", "api", "keys", "private", "so", "that", "nobody", "who", "reads", "basic", "docs"),
    *("bearer", "headers", "machine", "learning", "or", "password", "policy", "sees", "more", "than", "name"),
]


def lines(count: int, seed: int) -> list[str]:
    """Return this many lines: the written ones, then generated ones of every shape in turn."""
    dice = random.Random(seed)
    shapes = list(_SHAPES)
    made = [shapes[number % len(shapes)](dice) for number in range(count - len(WRITTEN))]
    return [*WRITTEN, *made]


def addresses(seed: int) -> list[str]:
    """Return addresses with random values in their queries that are no secrets, of every shape."""
    dice = random.Random(seed)
    return [shape(dice) for shape in _ADDRESSES]


def _hex(dice: random.Random, length: int) -> str:
    return some(HEX, length)(dice)


def _sha512(dice: random.Random) -> str:
    return base64.b64encode(dice.randbytes(64)).decode()


def _encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


def _uuid(dice: random.Random) -> str:
    return str(uuid.UUID(int=dice.getrandbits(128), version=4))


def _prose(dice: random.Random) -> str:
    return " ".join(dice.choices(_WORDS, k=dice.randint(6, 25))).capitalize() + "."


_SHAPES = (
    lambda d: f"{_hex(d, 40)} refs/heads/feature-{_hex(d, 6)}",
    lambda d: f"commit {_hex(d, 40)}",
    lambda d: f"{_hex(d, 64)}  dist/agentctx-{d.randint(1, 9)}.{d.randint(0, 9)}.0-py3-none-any.whl",
    lambda d: f"{_hex(d, 32)}  backup.tar.gz",
    lambda d: f'      "integrity": "sha512-{_sha512(d)}",',
    lambda d: f"    --hash=sha256:{_hex(d, 64)} \\",
    lambda d: f'checksum = "{_hex(d, 64)}"',
    lambda d: f"golang.org/x/crypto v0.{d.randint(1, 40)}.0 h1:{base64.b64encode(d.randbytes(32)).decode()}",
    lambda d: f'  resolved "https://packages.example.com/ms/-/ms-2.1.{d.randint(0, 9)}.tgz#{_hex(d, 40)}"',
    lambda d: f'{{"id": "{_uuid(d)}", "parent": "{_uuid(d)}", "size": {d.randint(1, 10**6)}}}',
    lambda d: f"request_id={_uuid(d)} trace={_hex(d, 32)} span={_hex(d, 16)}",
    lambda d: f'<img src="data:image/png;base64,iVBORw0KGgo{some(B64, d.randint(60, 400))(d)}=">',
    some(B64, 76),
    lambda d: f"image: images.example.com/app@sha256:{_hex(d, 64)}",
    lambda d: f'<script src="/app.{_hex(d, 8)}.js" integrity="sha384-{some(B64, 64)(d)}"></script>',
    lambda d: f"https://example.com/watch?v={some(ALNUM, 11)(d)}&utm_source={some(ALNUM, 8)(d)}",
    lambda d: f"{d.randrange(16**8):08x}: " + " ".join(_hex(d, 4) for _ in range(8)),
    lambda d: f"cache key user:{d.randint(1, 9999)}:profile:{_hex(d, 12)} expired",
    lambda d: f"def test_{some('abcdefgh', 8)(d)}(password: str, token: str = 'none') -> None:",
    lambda d: f"node_{_hex(d, 12)} -> node_{_hex(d, 12)} [label={d.randint(1, 99)}]",
    _prose,
    _prose,
    _prose,
)
_ADDRESSES: tuple[Make, ...] = (
    lambda d: f"https://example.com/app.js?{some(ALNUM, 43)(d)}",
    lambda d: f"https://example.com/site.css?v={some(ALNUM, 43)(d)}",
    lambda d: f"https://example.com/fonts/inter.woff2?{_hex(d, 32)}",
    lambda d: f"https://example.com/diff?{_hex(d, 40)}&to={_hex(d, 40)}",
    lambda d: f"https://example.com/blob?x={_hex(d, 64)}",
    lambda d: f"https://example.com/?{_uuid(d)}&n={_uuid(d)}",
    lambda d: f"https://drive.example.com/open?id={some(ALNUM, 33)(d)}&list=PL{some(ALNUM, 32)(d)}",
    lambda d: f"https://example.com/?fbclid=IwAR{some(ALNUM, 58)(d)}&gclid=Cj0KCQ{some(ALNUM, 80)(d)}",
    lambda d: f"https://example.com/?utm_content={some(ALNUM, 40)(d)}&mc_eid={_hex(d, 10)}",
    lambda d: f"https://search.example.com/?q=pie&ved=2ahUKE{some(ALNUM, 40)(d)}&usg=AOv{some(ALNUM, 32)(d)}",
    lambda d: f"https://mail.example.com/click?upn={some(ALNUM, 120)(d)}",
    lambda d: f"https://urldefense.example.com/v2/url?u=https-3A__a.example&d=DwMF&c={some(ALNUM, 43)(d)}",
    lambda d: f"https://example.com/items?cursor={some(ALNUM, 48)(d)}&limit=10",
    lambda d: f"https://example.com/?gclid=EA{some(ALNUM, 10)(d)}_{some(ALNUM, 40)(d)}",
    lambda d: f"https://example.com/items?pageToken={some(ALNUM, 40)(d)}",
    lambda d: f'{{"items": [], "nextToken": "{some(ALNUM, 48)(d)}"}}',
    lambda d: f"ContinuationToken={some(ALNUM, 40)(d)}",
    lambda d: f"https://example.com/authorize?state={some(ALNUM, 43)(d)}&code_challenge={some(ALNUM, 43)(d)}",
    lambda d: f"https://example.com/?to={_encoded(f'https://www.example.org/pages/{d.randint(1, 99)}?a=1')}",
    lambda d: f"https://example.com/?filter={_encoded(f'page={d.randint(1, 99)}, sort=new, limit=40')}",
    lambda d: f"https://example.com/view?showMyAccountSettingsAndPreferences{d.randint(1, 99)}",
    lambda d: f"https://example.com/?path=Home/Index/AccountPage{d.randint(1, 9)}/SettingsAndMore",
    lambda d: f"return isReady ? {some(ALNUM, 40)(d)} : null;",
)
