# PgBouncer, from Debian, with the settings of deploy/pgbouncer. Build it at the root of the repository:
#
#     docker build -f deploy/docker/pgbouncer.Dockerfile -t ficha-pgbouncer .
ARG DEBIAN_IMAGE=debian:bookworm-slim
FROM ${DEBIAN_IMAGE}
# Debian keeps only the newest build of a release, so an exact version could not be had again.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends pgbouncer \
    && rm -rf /var/lib/apt/lists/* /etc/pgbouncer/*
COPY deploy/pgbouncer/pgbouncer.ini deploy/pgbouncer/start.sh /etc/pgbouncer/
# Debian's user of that name has no fixed number.
USER 65534:65534
EXPOSE 6432
# SIGINT lets transactions under way end; SIGTERM would cut them off.
STOPSIGNAL SIGINT
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s --retries=3 \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/6432"]
ENTRYPOINT ["sh", "/etc/pgbouncer/start.sh"]
