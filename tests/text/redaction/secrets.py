"""Generated secrets of every kind, in lines as they leak: from the vendors' formats, not from our rules."""

from __future__ import annotations

import base64
import json
import random
import string
import uuid
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

ALNUM = string.ascii_letters + string.digits
URL = ALNUM + "-_"
B64 = ALNUM + "+/"
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits

Make: TypeAlias = Callable[[random.Random], str]


class PlantedSecret(NamedTuple):
    """A line and the secret in it."""

    line: str
    secret: str


def some(alphabet: str, length: int) -> Make:
    return lambda dice: "".join(dice.choices(alphabet, k=length))


def made(*parts: str | Make) -> Make:
    """Join the parts, calling those that are functions."""
    return lambda dice: "".join(part if isinstance(part, str) else part(dice) for part in parts)


def one_of(*makes: Make) -> Make:
    return lambda dice: dice.choice(makes)(dice)


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _jwt(dice: random.Random) -> str:
    header = json.dumps({"alg": dice.choice(["HS256", "RS256", "ES256"]), "typ": "JWT"})
    claims = json.dumps({"sub": some(ALNUM, 12)(dice), "iat": dice.randrange(10**9)})
    signature = some(URL, dice.choice([43, 86, 342]))(dice)
    return f"{_b64(header.encode())}.{_b64(claims.encode())}.{signature}"


def _pem(label: str, head: str = "") -> Make:
    def make(dice: random.Random) -> str:
        body = "\n".join(some(B64, 64)(dice) for _ in range(dice.randint(4, 25)))
        return f"-----BEGIN {label}-----\n{head}{body}\n{some(B64, 22)(dice)}==\n-----END {label}-----"

    return make


def _uuid(dice: random.Random) -> str:
    return str(uuid.UUID(int=dice.getrandbits(128), version=4))


WALLET_WORDS = (
    *("abandon", "ability", "acoustic", "adapt", "again", "alcohol", "amused", "antique", "april", "arrow"),
    *("bacon", "basket", "beauty", "bicycle", "blouse", "bright", "cabin", "cactus", "canvas"),
    *("dragon", "easy", "empower", "fabric", "gauge", "hybrid", "ivory", "jungle", "kitten", "zebra"),
)


def _discord(dice: random.Random) -> str:
    bot = base64.b64encode(str(dice.randrange(10**17, 10**18)).encode()).decode().rstrip("=")
    return f"{bot}.G{some(URL, 5)(dice)}.{some(URL, 38)(dice)}"


def _password(dice: random.Random) -> str:
    word = "".join(dice.sample(ALNUM + "!#%^*+=~.-", dice.randint(10, 20)))
    return f"{word}{dice.choice(string.ascii_letters)}{dice.choice(string.digits)}"


def _basic(dice: random.Random) -> str:
    return base64.b64encode(f"{some(string.ascii_lowercase, 6)(dice)}:{_password(dice)}".encode()).decode()


_PEM_LABELS = (
    "PRIVATE KEY",
    "RSA PRIVATE KEY",
    "EC PRIVATE KEY",
    "DSA PRIVATE KEY",
    "ENCRYPTED PRIVATE KEY",
    "OPENSSH PRIVATE KEY",
)
_ENCRYPTED = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,2B8D5F1C0E9A47736D1F0C8B5A4E3D2C\n\n"
_PLACES: tuple[str, ...] = (
    "{}",
    "export TOKEN={}",
    'const key = "{}";',
    "use {} for that",
    "curl -H 'X-Api-Key: {}' https://api.example.com/v1",
    '{{"key": "{}"}}',
    "it printed\\n{}\\nand went on",
    "The key ({}) was rotated, see the wiki.",
)

# Kinds that are recognized wherever they stand.
ANYWHERE: Mapping[str, Make] = {
    "private-key": one_of(*(_pem(label) for label in _PEM_LABELS), _pem("RSA PRIVATE KEY", _ENCRYPTED)),
    "pgp-private-key": _pem("PGP PRIVATE KEY BLOCK", "Version: GnuPG v2\n\n"),
    "age-secret-key": made("AGE-SECRET-KEY-1", some(UPPER, 58)),
    "aws-access-key-id": made(
        lambda dice: dice.choice(["AKIA", "ASIA"]), some("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16)
    ),
    "google-api-key": made("AIza", some(URL, 34), some(ALNUM, 1)),
    "google-oauth-token": one_of(
        made("GOCSPX-", some(URL, 27), some(ALNUM, 1)), made("ya29.a0", some(URL, 120), some(ALNUM, 1))
    ),
    "azure-client-secret": made(some(ALNUM, 3), "8Q~", some(ALNUM + "_~.-", 33), some(ALNUM, 1)),
    "alibaba-access-key": made("LTAI", some(ALNUM, 20)),
    "digitalocean-token": made(lambda dice: dice.choice(["dop", "doo", "dor"]), "_v1_", some(HEX, 64)),
    "heroku-api-key": made("HRKU-AA", some(URL, 57), some(ALNUM, 1)),
    "fly-token": made("fo1_", some(URL, 42), some(ALNUM, 1)),
    "netlify-token": made("nfp_", some(ALNUM, 36)),
    "supabase-key": one_of(made("sbp_", some(HEX, 40)), made("sb_secret_", some(URL, 30), some(ALNUM, 1))),
    "planetscale-token": made("pscale_tkn_", some(URL, 42), some(ALNUM, 1)),
    "github-token": made("ghp_", some(ALNUM, 36)),
    "github-fine-grained-token": made("github_pat_11", some(UPPER, 20), "_", some(ALNUM, 59)),
    "github-app-token": made(lambda dice: dice.choice(["gho_", "ghu_", "ghs_", "ghr_"]), some(ALNUM, 36)),
    "gitlab-token": one_of(
        made("glpat-", some(URL, 19), some(ALNUM, 1)),
        made("glrt-", some(URL, 19), some(ALNUM, 1)),
        made("glpat-", some(URL, 27), ".01.0z", some(HEX, 7)),
    ),
    "bitbucket-app-password": made("ATBB", some(ALNUM, 32)),
    "atlassian-token": made("ATATT3xFfGF0", some(URL, 170), "=", some("0123456789ABCDEF", 8)),
    "npm-token": made("npm_", some(ALNUM, 36)),
    "pypi-token": made("pypi-AgEIcHlwaS5vcmc", some(URL, 150), some(ALNUM, 1)),
    "rubygems-token": made("rubygems_", some(HEX, 48)),
    "crates-io-token": made("cio", some(ALNUM, 32)),
    "docker-hub-token": made("dckr_pat_", some(URL, 26), some(ALNUM, 1)),
    "circleci-token": made("CCIPAT_", some(ALNUM, 22), "_", some(HEX, 40)),
    "buildkite-token": made("bkua_", some(HEX, 40)),
    "terraform-token": made(some(ALNUM, 14), ".atlasv1.", some(ALNUM, 67)),
    "pulumi-token": made("pul-", some(HEX, 40)),
    "postman-key": made("PMAK-", some(HEX, 24), "-", some(HEX, 34)),
    "anthropic-api-key": made("sk-ant-api03-", some(URL, 93), "AA"),
    "openrouter-api-key": made("sk-or-v1-", some(HEX, 64)),
    "openai-api-key": one_of(
        made("sk-proj-", some(URL, 74), "T3BlbkFJ", some(URL, 73), some(ALNUM, 1)),
        made("sk-", some(ALNUM, 20), "T3BlbkFJ", some(ALNUM, 20)),
        made("sk-svcacct-", some(URL, 58), "T3BlbkFJ", some(ALNUM, 58)),
    ),
    "deepseek-api-key": made("sk-", some(HEX, 32)),
    "hugging-face-token": made("hf_", some(string.ascii_letters, 34)),
    "groq-api-key": made("gsk_", some(ALNUM, 52)),
    "xai-api-key": made("xai-", some(ALNUM, 80)),
    "voyage-api-key": made("pa-", some(URL, 42), some(ALNUM, 1)),
    "perplexity-api-key": made("pplx-", some(ALNUM, 48)),
    "replicate-token": made("r8_", some(ALNUM, 37)),
    "nvidia-api-key": made("nvapi-", some(URL, 63), some(ALNUM, 1)),
    "fireworks-api-key": made("fw_", some(ALNUM, 22)),
    "langsmith-api-key": made("lsv2_pt_", some(HEX, 32), "_", some(HEX, 10)),
    "tavily-api-key": made("tvly-dev-", some(ALNUM, 32)),
    "slack-token": one_of(
        made("xoxb-", some(string.digits, 12), "-", some(string.digits, 13), "-", some(ALNUM, 24)),
        made(
            "xoxp-",
            some(string.digits, 12),
            "-",
            some(string.digits, 12),
            "-",
            some(string.digits, 12),
            "-",
            some(HEX, 32),
        ),
        made("xapp-1-A", some(UPPER, 10), "-", some(string.digits, 13), "-", some(HEX, 64)),
    ),
    "discord-bot-token": _discord,
    "telegram-bot-token": made(some("123456789", 10), ":AA", some(URL, 32), some(ALNUM, 1)),
    "twilio-api-key": made("SK", some(HEX, 32)),
    "sendgrid-api-key": made("SG.", some(URL, 22), ".", some(URL, 42), some(ALNUM, 1)),
    "mailgun-api-key": made("key-", some(HEX, 32)),
    "mailchimp-api-key": made(some(HEX, 32), "-us", some("123456789", 1)),
    "stripe-key": made(
        lambda dice: dice.choice(["sk_live_", "sk_test_", "rk_live_", "rk_test_"]),
        one_of(some(ALNUM, 24), some(ALNUM, 99)),
    ),
    "stripe-webhook-secret": made("whsec_", some(ALNUM, 32)),
    "square-token": one_of(
        made("EAAA", some(URL, 59), some(ALNUM, 1)),
        made("sq0atp-", some(URL, 21), some(ALNUM, 1)),
        made("sq0csp-", some(URL, 42), some(ALNUM, 1)),
    ),
    "shopify-token": made(lambda dice: dice.choice(["shpat_", "shpca_", "shppa_", "shpss_"]), some(HEX, 32)),
    "vault-token": one_of(made("hvs.CAESI", some(URL, 85), some(ALNUM, 1)), made("hvs.", some(ALNUM, 24))),
    "databricks-token": made("dapi", some(HEX, 32)),
    "linear-api-key": made("lin_api_", some(ALNUM, 40)),
    "notion-token": one_of(made("ntn_", some(ALNUM, 46)), made("secret_", some(ALNUM, 43))),
    "airtable-token": made("pat", some(ALNUM, 14), ".", some(HEX, 64)),
    "figma-token": made("figd_", some(URL, 39), some(ALNUM, 1)),
    "hubspot-token": made("pat-na1-", _uuid),
    "grafana-token": made("glsa_", some(ALNUM, 32), "_", some(HEX, 8)),
    "new-relic-key": made("NRAK-", some(UPPER, 27)),
    "sentry-token": made("sntryu_", some(HEX, 64)),
    "tailscale-key": made("tskey-auth-k", some(ALNUM, 10), "CNTRL-", some(ALNUM, 32)),
    "doppler-token": made("dp.pt.", some(ALNUM, 43)),
    "onepassword-token": made("ops_eyJ", some(URL, 400), some(ALNUM, 1)),
    "json-web-token": _jwt,
    "cloudflare-origin-ca-key": made("v1.0-", some(HEX, 24), "-", some(HEX, 146)),
}

# Kinds that their surroundings tell; `{}` is the secret.
BESIDE: Mapping[str, tuple[Make, tuple[str, ...]]] = {
    "gcp-service-account-key": (
        lambda dice: json.dumps(_pem("PRIVATE KEY")(dice) + "\n")[1:-1],
        ('{{"type": "service_account", "private_key": "{}", "client_email": "a@b.gserviceaccount.com"}}',),
    ),
    "putty-private-key": (
        one_of(made(some(B64, 64), "\n", some(B64, 64), "\n", some(B64, 40))),
        ("Private-Lines: 3\n{}\nPrivate-MAC: 12",),
    ),
    "aws-secret-access-key": (
        some(B64, 40),
        (
            "AWS_SECRET_ACCESS_KEY={}",
            "aws_secret_access_key = {}",
            '"SecretAccessKey": "{}"',
            "AKIAIOSFODNN7ABCDEFG,{}",
        ),
    ),
    "aws-session-token": (
        some(B64, 300),
        ("aws_session_token = {}", "AWS_SESSION_TOKEN={}", '"SessionToken": "{}"'),
    ),
    "azure-storage-key": (
        made(some(B64, 86), "=="),
        (
            "DefaultEndpointsProtocol=https;AccountName=acc;AccountKey={};EndpointSuffix=core.windows.net",
            "azure key {}",
        ),
    ),
    "azure-shared-access-key": (
        made(some(B64, 43), "="),
        ("Endpoint=sb://n.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={}",),
    ),
    "azure-sas-token": (
        made(some(ALNUM, 42), "%3D"),
        (
            "https://acc.blob.core.windows.net/c/b?sv=2024-11-04&sp=r&sig={}",
            "?sv=2024-11-04&ss=b&se=2030-01-01&sig={}&spr=https",
        ),
    ),
    "cloudflare-token": (some(URL, 40), ("CLOUDFLARE_API_TOKEN={}", 'cloudflare: "{}"', "CF_API_TOKEN={}")),
    "cohere-api-key": (some(ALNUM, 40), ("COHERE_API_KEY={}", 'cohere.Client("{}")', "CO_API_KEY={}")),
    "mistral-api-key": (some(ALNUM, 32), ("MISTRAL_API_KEY={}", 'Mistral(api_key="{}")')),
    "twilio-auth-token": (some(HEX, 32), ("TWILIO_AUTH_TOKEN={}", 'twilio.Client(sid, "{}")')),
    "heroku-uuid-key": (_uuid, ("HEROKU_API_KEY={}", "heroku key: {}")),
    "mailgun-signing-key": (
        made(some(HEX, 32), "-", some(HEX, 8), "-", some(HEX, 8)),
        ("MAILGUN_API_KEY={}",),
    ),
    "okta-token": (
        made("00", some(URL, 39), some(ALNUM, 1)),
        ("Authorization: SSWS {}", "OKTA_API_TOKEN={}"),
    ),
    "datadog-key": (some(HEX, 32), ("DD_API_KEY={}", "datadog_api_key: {}")),
    "slack-webhook": (
        made("T", some(UPPER, 9), "/B", some(UPPER, 9), "/", some(ALNUM, 24)),
        ("https://hooks.slack.com/services/{}",),
    ),
    "discord-webhook": (some(URL, 68), ("https://discord.com/api/webhooks/123456789012345678/{}",)),
    "automation-webhook": (
        some(ALNUM, 22),
        (
            "https://hooks.zapier.com/hooks/catch/1234567/{}/",
            "https://hook.eu2.make.com/{}",
            "https://maker.ifttt.com/trigger/door_open/with/key/{}",
        ),
    ),
    "teams-webhook": (
        made(_uuid, "@", _uuid, "/IncomingWebhook/", some(HEX, 32), "/", _uuid),
        ("https://contoso.webhook.office.com/webhookb2/{}",),
    ),
    "url-password": (
        _password,
        (
            "postgres://app:{}@db.example.com:5432/prod",
            "postgresql+asyncpg://app:{}@localhost/prod",
            "mysql://root:{}@10.0.0.5/shop",
            "mongodb+srv://admin:{}@cluster0.abcde.mongodb.net/test",
            "redis://:{}@cache:6379/0",
            "amqp://guest:{}@rabbit:5672//",
            "git clone https://bot:{}@git.example.com/a/b.git",
        ),
    ),
    "basic-credentials": (_basic, ("Authorization: Basic {}", '"authorization": "Basic {}"')),
    "bearer-token": (
        one_of(some(ALNUM, 40), some(URL, 64), made(some(HEX, 31), "a1")),
        ("Authorization: Bearer {}", "-H 'authorization: bearer {}'"),
    ),
    "curl-password": (
        _password,
        ("curl -u admin:{} https://example.com", "curl -sS --user bot:{} https://example.com"),
    ),
    "netrc-password": (_password, ("machine api.example.com login me password {}",)),
    "password": (
        _password,
        (
            "DB_PASSWORD={}",
            'password = "{}"',
            '"passphrase": "{}"',
            "Server=db;User Id=sa;Password={};",
        ),
    ),
    "api-key": (
        one_of(some(ALNUM, 32), some(HEX, 40), some(URL, 43)),
        ("api_key: {}", 'API_KEY="{}"', "client_secret={}", "'access_token': '{}'", "MY_SERVICE_TOKEN={}"),
    ),
}

# Kinds of no vendor that whole phrases tell.
BESIDE = {
    **BESIDE,
    "docker-auth": (_basic, ('{{"auths": {{"index.example.com": {{"auth": "{}"}}}}}}', "_auth={}")),
    "kubeconfig-data": (some(B64, 400), ("client-key-data: {}", "client-certificate-data: {}")),
    "password-hash": (
        one_of(
            made("$6$", some(ALNUM, 8), "$", some(ALNUM + "./", 86)),
            made("$2b$12$", some(ALNUM + "./", 53)),
            made("$y$j9T$", some(ALNUM + "./", 22), "$", some(ALNUM + "./", 43)),
            made("$argon2id$v=19$m=65536,t=3,p=4$", some(B64, 22), "$", some(B64, 43)),
        ),
        ("root:{}:19000:0:99999:7:::", "bob has the hash {} in users", "('bob', '{}')"),
    ),
    "pgpass-line": (some(ALNUM, 14), ("db.internal:5432:orders:app:{}", "*:*:*:postgres:{}")),
    "command-password": (
        some(ALNUM, 14),
        (
            "mysql -u root -p{} shop",
            "sshpass -p {} ssh bob@host",
            "redis-cli -h cache -a {} ping",
            "zip -P {} a.zip b",
        ),
    ),
    "query-key": (
        one_of(some(ALNUM, 40), some(URL, 64), made(some(ALNUM, 42), "%2B", some(ALNUM, 10), "%3D")),
        (
            "https://files.example.com/report.pdf?{}",
            "GET /v1/items?{} HTTP/1.1",
            "see https://hooks.example.com/a?x={}.",
            "curl 'https://api.example.com/d?region=eu&k={}&z=1'",
            '<a href="https://example.com/?page=1&amp;zz={}">',
        ),
    ),
    "piped-password": (some(ALNUM, 14), ("echo {} | sudo -S apt update", "echo 'root:{}' | chpasswd")),
    "option-password": (some(ALNUM, 11), ("deploy --pass {} now", "tool -pw {} host")),
    "tuple-password": (some(ALNUM, 11), ('get(url, auth=("bob", "{}"))',)),
    "sql-password": (some(ALNUM, 11), ("CREATE USER app IDENTIFIED BY '{}';",)),
    "wordpress-salt": (
        made(some(ALNUM + "!#%^*-_ (){}[]<>~+=,.;:/?|&@$", 60), "a1(x)"),
        ("define('AUTH_KEY',         '{}');", "define( 'NONCE_SALT', '{}' );"),
    ),
    "argument-password": (
        some(ALNUM, 14),
        (
            "jwt.sign(payload, '{}')",
            "claims = jwt.decode(token, '{}', algorithms=['HS256'])",
            "hmac.new(b'{}', body, 'sha256')",
            "crypto.createHmac('sha256', '{}')",
            "hash_hmac('sha256', $data, '{}')",
            'keyring.set_password("acme", "kim", "{}")',
            'new mysqli("localhost", "root", "{}", "shop")',
            "new PDO('mysql:host=db', 'root', '{}')",
            "app.use(cookieParser('{}'))",
            'WiFi.begin("Lab", "{}");',
            'DriverManager.getConnection(url, "app", "{}")',
            "cipher = AES.new(b'{}', AES.MODE_GCM)",
            "EXEC sp_addlogin 'svc', '{}'",
        ),
    ),
    "passphrase": (
        lambda dice: " ".join(some(string.ascii_lowercase, dice.randint(3, 9))(dice) for _ in range(10)),
        ('mnemonic: "{}"', "The seed phrase is {}.", "seed phrase: {}", 'passphrase = "{}"'),
    ),
    "asana-token": (
        made("2/", some("123456789", 16), "/", some("123456789", 16), ":", some(HEX, 32)),
        ("ASANA_TOKEN={}", "asana: {}"),
    ),
    "wallet-seed": (
        lambda dice: " ".join(dice.sample(WALLET_WORDS, dice.choice((12, 15, 18, 21, 24)))),
        (
            "wallet seed for testnet: {}",
            "my metamask seed words are: {}",
            "The recovery phrase of my Ledger is {}",
            "Recovery phrase\n{}\n",
            "seedphrase={}",
            "backup words: {}",
        ),
    ),
    "jdbc-password": (
        lambda dice: dice.choice(("velvet", "Kd9%23x%26Lp", "correct.horse", "Harbor-Mitten#", "p$ss")),
        (
            "jdbc:mysql://db:3306/shop?user=app&password={}",
            "jdbc:postgresql://h/d?password={}&user=a",
            "jdbc:sqlserver://h:1433;databaseName=crm;user=sa;password={};encrypt=true",
            "jdbc:sqlserver://h;user=sa;password={{{}}}",
            "jdbc:mysql://h/db?user=a&amp;password={}",
            "jdbc:h2:tcp://localhost/~/t;USER=sa;PASSWORD={}",
            "jdbc:redshift://c:5439/dev?UID=u&PWD={}",
        ),
    ),
    "oracle-password": (
        some(ALNUM, 11),
        (
            "jdbc:oracle:thin:scott/{}@//db:1521/orders",
            "jdbc:oracle:oci:@scott/{}@orders",
            "sqlplus -s scott/{}@orders",
        ),
    ),
    "recovery-codes": (
        lambda dice: " ".join(f"{some(HEX, 4)(dice)}1-{some(HEX, 5)(dice)}" for _ in range(5)),
        ("recovery codes: {}", "The backup codes for GitHub are {}"),
    ),
    "pin": (
        some("123456789", 6),
        (
            "PIN: {}",
            "door code: {}",
            "PIN for the alarm is {}",
            "the alarm code is {}",
            "Türcode: {}",
            "PIN der Karte: {}",
            "online PIN {}",
        ),
    ),
    "json-web-key": (some(URL, 43), ('{{"kty":"EC","crv":"P-256","d":"{}"}}', '{{"kty":"oct","k":"{}"}}')),
    "short-password": (_password, ("pw: {}", "pwd: '{}'", "SMTP_PASS={}", "UID=sa;PWD={};", "psk='{}'")),
    "password-in-prose": (
        lambda dice: some(string.ascii_lowercase, 8)(dice).capitalize() + str(dice.randint(10, 9999)) + "!",
        (
            "the password for staging is {}, do not share it",
            "Das Passwort lautet {}",
            "I changed the password to {}",
            "パスワードは「{}」です",
            "log in with user admin / {}",
        ),
    ),
    "named-value": (
        some(ALNUM, 14),
        ('{{"name": "DB_PASSWORD", "value": "{}"}}', "- name: API_TOKEN\n  value: {}"),
    ),
    "vendor-token": (
        one_of(
            made("ABSK", some(B64, 128)),
            made("sl.", some(URL, 135), "x"),
            made("EAA", some(ALNUM, 180)),
            made("EZ", "AK", some(ALNUM, 54)),
            made("e2b_", some(HEX, 40)),
            made("squ_", some(HEX, 40)),
            made("csk-", some(string.ascii_lowercase + string.digits, 48)),
            made("AQEyhmf", some(B64, 100)),
            made("sk.eyJ", some(URL, 60), ".", some(ALNUM, 22)),
        ),
        ("use {} here", "x={}", '"{}"'),
    ),
    "password-at-host": (_password, ("app:{}@db.example.com:5432/orders", "bob:{}@mail.example.com")),
    "environment-line": (
        some(ALNUM, 11),
        ("ENV DB_PASSWORD {}", "setenv DB_PASSWORD {}", "set -x API_TOKEN {}"),
    ),
    "webhook-url": (
        some(ALNUM, 40),
        ("https://hooks.example.com/services/{}", "https://example.com/webhook/v1/{}"),
    ),
    "prefixed-token": (
        made(some(string.ascii_lowercase, 4), "_live_", some(ALNUM, 32), "aB3"),
        ("use {} here", 'Client("{}")'),
    ),
}

# Kinds that the order of words or the layout tells.
BESIDE = {
    **BESIDE,
    "stated-key": (
        one_of(made(some(ALNUM, 29), "aB3"), some(HEX, 64), some("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 32)),
        (
            "The API token we use in CI is {}, it never expires.",
            "encryption key (AES-256) {}",
            "The signing seed for the billing account is {}",
            "Der Schlüssel für die Wetter-API lautet {}",
        ),
    ),
    "totp-secret": (
        made(some("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 15), "7"),
        (
            "TOTP secret is {}",
            "my 2FA seed {}",
            "2FA secret: {}",
            "authenticator setup key: {}",
            "MFA_SEED={}",
            "TOTP seed for the billing account: {}",
        ),
    ),
    "secret-before-name": (
        made(some(ALNUM, 20), "aB3"),
        (
            "Use {} as the passphrase when it asks.",
            "{} is our guest password",
            "nimm {} als Passwort für das NAS",
            "expo {} is EXPO_TOKEN",
        ),
    ),
    "key-before-name": (
        one_of(some(HEX, 32), made(some(ALNUM, 24), "aB3")),
        (
            "Use {} as the API key for staging.",
            "{} is our signing key",
            "send {} as the webhook secret",
            "it takes `{}` as its access token now",
        ),
    ),
    "network-device-password": (
        made(some("0123456789ABCDEF", 14), "7A"),
        ("enable secret 9 {}", "username bob privilege 15 password 7 {}", "snmp-server community {} RO"),
    ),
    "url-token": (
        one_of(some(HEX, 40), made(some(ALNUM, 30), "a1")),
        ("git clone https://{}@git.example.com/a/b.git", "https://{}@o12.ingest.sentry.example/34"),
    ),
    "account-password": (
        lambda dice: some(ALNUM, 8)(dice) + f"A{dice.randint(1, 9)}!",
        ("the shop's login: paula@example.com / {}", "paula@mail.example.com:{} works"),
    ),
    "payment-card": (
        lambda dice: dice.choice(["4111 1111 1111 1111", "5500-0000-0000-0004", "378282246310005"]),
        ("the company card is {}, exp 12/27", "Visa {}", "Karte: {}"),
    ),
    "social-security-number": (
        lambda dice: f"{dice.randint(100, 599)}-{dice.randint(10, 99)}-{dice.randint(1000, 9999)}",
        ("my ssn is {}", "SSN: {}", "the social security number of Kim is {}"),
    ),
    "app-password": (
        lambda dice: "-".join(some(string.ascii_lowercase, 4)(dice) for _ in range(4)),
        ("apple app-specific password {}", "the mail password for fastlane is {}"),
    ),
}

KINDS = (*ANYWHERE, *BESIDE)


def planted(kind: str, dice: random.Random) -> PlantedSecret:
    """Return a line with a new secret of this kind."""
    if kind in ANYWHERE:
        make, places = ANYWHERE[kind], _PLACES
    else:
        make, places = BESIDE[kind]
    secret = make(dice)
    return PlantedSecret(dice.choice(places).format(secret), secret)
