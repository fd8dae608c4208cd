# agentctx with its model: it needs no network at run time and writes only to its two volumes.
#
#   docker build -t agentctx --build-arg COMMIT=$(git rev-parse --short=12 HEAD) .
#   docker build … --build-arg PACKAGES=agentctx-postgresql for storage.url = "postgresql://…"
#   docker run --read-only --cap-drop ALL --network none -v agentctx:/var/lib/agentctx -v agentctx-run:/run/agentctx agentctx
#
# The base is Debian because sqlite-vec has no wheel for musl. It must have Python 3.11 to 3.13 with venv.
ARG BASE=docker.io/library/python:3.13-slim-bookworm

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 ORT_DISABLE_TELEMETRY=1
RUN ["python3", "-m", "venv", "/opt/agentctx"]
WORKDIR /src
COPY requirements.lock ./
RUN ["/opt/agentctx/bin/pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:", "-r", "requirements.lock"]
COPY pyproject.toml hatch_build.py README.md LICENSE CHANGELOG.md ./
COPY agentctx ./agentctx
COPY config ./config
COPY migrations ./migrations
COPY systemd ./systemd
COPY packages ./packages
# The image gets no .git: --build-arg COMMIT=$(git rev-parse --short=12 HEAD) names the commit.
ARG COMMIT=unknown
RUN echo "$COMMIT" >agentctx/commit.txt
RUN ["/opt/agentctx/bin/pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "."]
# Names of folders in packages/, separated by spaces.
ARG PACKAGES=
RUN for package in $PACKAGES; do \
      /opt/agentctx/bin/pip install --quiet --no-deps --require-hashes --only-binary :all: -r packages/$package/requirements.lock && \
      /opt/agentctx/bin/pip install --quiet --no-deps --no-build-isolation ./packages/$package || exit; \
    done

FROM ${BASE}
COPY --from=build /opt/agentctx /opt/agentctx
RUN ["install", "-d", "-m", "0700", "-o", "10001", "-g", "10001", "/var/lib/agentctx"]
RUN ["install", "-d", "-m", "0750", "-o", "10001", "-g", "10001", "/run/agentctx"]
ENV PATH=/opt/agentctx/bin:$PATH \
    HOME=/var/lib/agentctx \
    PYTHONDONTWRITEBYTECODE=1 \
    ORT_DISABLE_TELEMETRY=1 \
    CONFIGURATION_DIRECTORY=/etc/agentctx \
    AGENTCTX_DATA_DIR=/var/lib/agentctx \
    AGENTCTX_SOCKET=/run/agentctx/agentctx.sock
USER 10001:10001
VOLUME ["/var/lib/agentctx", "/run/agentctx"]
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=30s CMD ["agentctx", "status"]
ENTRYPOINT ["agentctx"]
CMD ["serve"]
