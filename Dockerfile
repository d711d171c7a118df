# syntax=docker/dockerfile:1
# The store as one image for every role: `docker build -t storefront .`. See docs/operate/deploy.md.
FROM node:26-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
COPY client/package.json client/
COPY console/package.json console/
RUN npm ci --omit=dev --no-audit --no-fund && npm cache clean --force
COPY bin bin
COPY src src
COPY migrations migrations
COPY client client
COPY console console
COPY deploy/container deploy/container
COPY docs docs
COPY openapi.json LICENSE README.md ./
RUN find src -name '*.test.ts' -delete

FROM debian:bookworm-slim
LABEL org.opencontainers.image.title="Storefront" org.opencontainers.image.licenses="MIT"
# The container's port must be reachable from outside it. The operations port too: publish it to Prometheus alone.
ENV NODE_ENV=production HOST=0.0.0.0 PORT=3000 OPS_HOST=0.0.0.0 OPS_PORT=9464 DATA_DIR=/data HOME=/data PATH=/app/node_modules/.bin:$PATH
# Node.js needs libatomic1, which this image does not have. It has the other libraries.
RUN apt-get update && apt-get install --yes --no-install-recommends libatomic1 && rm -rf /var/lib/apt/lists/*
COPY --from=build /app /app
RUN groupadd --gid 10001 storefront \
  && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data storefront \
  && install --directory --mode=0700 --owner=storefront --group=storefront /data
USER 10001:10001
WORKDIR /app
VOLUME /data
EXPOSE 3000 9464
# Of this process, whatever its roles. It says nothing about the database: a store that waits for it must not be restarted.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["node", "/app/deploy/container/healthcheck.mjs"]
ENTRYPOINT ["node", "/app/bin/storefront.mjs"]
CMD ["serve"]
