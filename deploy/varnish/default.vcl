vcl 4.1;

# Varnish (6.0 or newer, no modules beyond its own) in front of Storefront. Set the addresses of the processes with the role `api` and who may
# purge in addresses.vcl, the languages of the catalogue in languages.vcl, and give the store CDN_PURGE_URL=varnish://<this host>:<port>.

import directors;
import std;

include "./addresses.vcl";
include "./languages.vcl";

sub vcl_recv {
  set req.backend_hint = stores.backend();
  unset req.http.x-catalogue;

  # PURGE with Surrogate-Key: every answer with one of these tags is forgotten.
  if (req.method == "PURGE") {
    # Varnish adds the client's address to X-Forwarded-For: a second one means that a proxy passes on a request of somebody else.
    if (client.ip !~ purgers || req.http.x-forwarded-for ~ ",") {
      return (synth(403, "Forbidden"));
    }
    # The tags become a regular expression: letters, digits, dashes and underscores only.
    if (req.http.surrogate-key !~ "^[A-Za-z0-9_-]+( [A-Za-z0-9_-]+)*$") {
      return (synth(400, "No tags"));
    }
    if (std.ban("obj.http.surrogate-key ~ (^|\s)(" + regsuball(req.http.surrogate-key, " ", "|") + ")(\s|$)")) {
      return (synth(200, "Banned"));
    }
    return (synth(500, std.ban_error()));
  }

  # A browser asks before it sends: without a yes a page would see no answer at all, not even that the store is unavailable.
  if (req.method == "OPTIONS" && req.http.access-control-request-method && !std.healthy(req.backend_hint)) {
    return (synth(204, "No Content"));
  }

  # Only the catalogue is the same for everybody; a prefix such as /v1 is allowed for.
  if ((req.method == "GET" || req.method == "HEAD") && req.url ~ "^(/[A-Za-z0-9._~-]+)*/(products|categories)([/?]|$)" && req.url !~ "/admin/") {
    set req.http.x-catalogue = "1";
    unset req.http.authorization;
    unset req.http.cookie;
    # It would be kept with the answer and sent to the next client.
    unset req.http.x-request-id;
    # What advertisers add to links differs with each click, and the store ignores it.
    # Only the first question mark begins the query: another one is part of a value.
    set req.url = regsub(req.url, "\?", "?&");
    set req.url = regsuball(req.url, "&(?:utm_[^=&]*|gclid|gclsrc|gbraid|wbraid|dclid|gad_source|gad_campaignid|srsltid|fbclid|msclkid|ttclid|twclid|li_fat_id|igshid|igsh|yclid|ysclid|epik|mc_cid|mc_eid|_ga|_gl|_hsenc|_hsmi|mkt_tok)(?:=[^&]*)?(?=&|$)", "");
    set req.url = regsub(regsub(req.url, "\?&", "?"), "^([^?]*)\?$", "\1");
    # The store reads no more than 500 characters either.
    if (req.http.accept-language ~ "^.{501}") {
      unset req.http.accept-language;
    }
    if (req.http.accept-language) {
      call choose_language;
    }
    if (req.http.accept-language == "") {
      unset req.http.accept-language;
    }
    # While the store is well a stale answer is good for a moment, until the fresh one is there; while it is down, for a day.
    if (req.restarts == 0 && std.healthy(req.backend_hint)) {
      set req.grace = 60s;
    }
    return (hash);
  }
  # A feed may be larger than the storage: kept, it would push out all pages, and break in the middle. A pipe reads no faster than the client.
  if (req.method == "GET" && req.url ~ "^(/[A-Za-z0-9._~-]+)*/feeds/" && req.url !~ "/admin/" && std.healthy(req.backend_hint)) {
    return (pipe);
  }
  return (pass);
}

sub vcl_backend_fetch {
  # A process that hangs: everybody who wants this page waits with the first. Then the other process is asked.
  if (bereq.http.x-catalogue) {
    set bereq.first_byte_timeout = 4s;
  }
}

sub vcl_backend_response {
  # A process that is stopping: the other one answers. What changes something is for the client to send again.
  if (beresp.status == 503 && bereq.retries == 0 && (bereq.method == "GET" || bereq.method == "HEAD")) {
    return (retry);
  }
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

# No process answered.
sub vcl_backend_error {
  if (bereq.retries == 0 && (bereq.method == "GET" || bereq.method == "HEAD")) {
    return (retry);
  }
  # As the store itself refuses when it cannot answer (docs/shop/errors.md). Any page may read it: nothing in it is anybody's.
  set beresp.status = 503;
  set beresp.http.content-type = "application/problem+json";
  set beresp.http.cache-control = "no-store";
  set beresp.http.retry-after = "5";
  set beresp.http.x-request-id = "varnish-" + bereq.xid;
  set beresp.http.access-control-allow-origin = "*";
  set beresp.http.access-control-expose-headers = "Retry-After, X-Request-Id";
  synthetic({"{"type":"/problems/unavailable","title":"The store cannot answer now","status":503,"} +
    {""detail":"No process of the store answers.","code":"unavailable","request_id":"varnish-"} + bereq.xid + {"" }"});
  return (deliver);
}

sub vcl_synth {
  if (req.method == "OPTIONS" && resp.status == 204) {
    set resp.http.access-control-allow-origin = "*";
    set resp.http.access-control-allow-methods = "GET, HEAD, POST, PUT, PATCH, DELETE";
    set resp.http.access-control-allow-headers =
      "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, X-Request-Id, Traceparent";
    # The store's own answer counts once it is back.
    set resp.http.access-control-max-age = "5";
    return (deliver);
  }
}

sub vcl_deliver {
  # The store failed before the probe saw it: once more, now with an answer of up to a day ago.
  if (resp.status >= 500 && req.restarts == 0 && req.http.x-catalogue) {
    return (restart);
  }
  # For this cache only. Cache-Tag and CDN-Cache-Control are for one in front of it.
  unset resp.http.surrogate-key;
  if (obj.hits > 0) {
    set resp.http.x-cache = "hit";
    # The answer has the id of the request that it was made for.
    set resp.http.x-request-id = "varnish-" + req.xid;
  } else {
    set resp.http.x-cache = "miss";
  }
}
