vcl 4.1;

# deploy/varnish/addresses.vcl for compose.yaml, whose names Varnish resolves when it starts.

probe livez {
  .url = "/livez";
  .interval = 2s;
  .timeout = 1s;
  .window = 3;
  .threshold = 2;
  .initial = 2;
}

backend storefront_1 {
  .host = "api-1";
  .port = "3000";
  .connect_timeout = 2s;
  .first_byte_timeout = 30s;
  .probe = livez;
}

backend storefront_2 {
  .host = "api-2";
  .port = "3000";
  .connect_timeout = 2s;
  .first_byte_timeout = 30s;
  .probe = livez;
}

# In turn, the healthy ones: any process can answer any request. With one process, take the other out here and above.
sub vcl_init {
  new stores = directors.round_robin();
  stores.add_backend(storefront_1);
  stores.add_backend(storefront_2);
}

# Who may purge: the hosts that run the role `stream`, each by its own address, such as "10.0.3.7". Never a whole network, where anybody's
# program could empty the cache. A proxy on the same host that ends TLS must send the PROXY protocol or X-Forwarded-For: without them every
# client comes from this host and may purge.
acl purgers {
  "stream-1";
  "stream-2";
}
