vcl 4.1;

# Varnish (6.0 or newer, no modules beyond its own) in front of Storefront. Set the backend's address and who may purge, and give the
# store CDN_PURGE_URL=varnish://<this host>:<port>.

import std;

backend storefront {
  .host = "127.0.0.1";
  .port = "3000";
  .connect_timeout = 2s;
  .first_byte_timeout = 30s;
  .probe = {
    .url = "/livez";
    .interval = 2s;
    .timeout = 2s;
    .window = 4;
    .threshold = 2;
    .initial = 2;
  }
}

# Who may purge: the hosts that run the role `stream`, each by its own address, such as "10.0.3.7". Never a whole network, where anybody's
# program could empty the cache.
acl purgers {
  "127.0.0.1";
  "::1";
}

sub vcl_recv {
  unset req.http.x-catalogue;

  # PURGE with Surrogate-Key: every answer with one of these tags is forgotten.
  if (req.method == "PURGE") {
    # Varnish adds the client's address to X-Forwarded-For: a second one means that a proxy passes on a request of somebody else.
    if (client.ip !~ purgers || req.http.x-forwarded-for ~ ",") {
      return (synth(403, "Forbidden"));
    }
    # The tags become a regular expression: letters, digits and dashes only.
    if (req.http.surrogate-key !~ "^[A-Za-z0-9-]+( [A-Za-z0-9-]+)*$") {
      return (synth(400, "No tags"));
    }
    if (std.ban("obj.http.surrogate-key ~ (^|\s)(" + regsuball(req.http.surrogate-key, " ", "|") + ")(\s|$)")) {
      return (synth(200, "Banned"));
    }
    return (synth(500, std.ban_error()));
  }

  # Only the catalogue is the same for everybody; a prefix such as /v1 is allowed for.
  if ((req.method == "GET" || req.method == "HEAD") && req.url ~ "^(/[A-Za-z0-9._~-]+)*/products([/?]|$)" && req.url !~ "/admin/") {
    set req.http.x-catalogue = "1";
    unset req.http.authorization;
    unset req.http.cookie;
    # While the store is well a stale answer is good for a moment, until the fresh one is there; while it is down, for a day.
    if (req.restarts == 0 && std.healthy(req.backend_hint)) {
      set req.grace = 60s;
    }
    return (hash);
  }
  return (pass);
}

sub vcl_backend_response {
  if (bereq.uncacheable) {
    return (deliver);
  }
  # A failing store replaces no answer that is there: the stale one is sent instead.
  if (beresp.status >= 500 && bereq.is_bgfetch) {
    return (abandon);
  }
  if (beresp.http.surrogate-key) {
    # As stale-if-error says; `Cache-Control: s-maxage` gave the time for which it is fresh.
    set beresp.grace = 24h;
    set beresp.keep = 1h;
  }
}

sub vcl_deliver {
  # The store failed before the probe saw it: once more, now with an answer of up to a day ago.
  if (resp.status >= 500 && req.restarts == 0 && req.http.x-catalogue) {
    return (restart);
  }
  # For caches only.
  unset resp.http.surrogate-key;
  unset resp.http.cache-tag;
  unset resp.http.cdn-cache-control;
  if (obj.hits > 0) {
    set resp.http.x-cache = "hit";
  } else {
    set resp.http.x-cache = "miss";
  }
}
