vcl 4.1;

# Included by default.vcl: the languages that pages of the catalogue are kept in. Name the language of the products' own texts
# (CATALOGUE_LANGUAGE) and those of their translations, in lower case, a longer tag before its beginning: zh-hant|zh. The store answers a
# language that is missing here only to `lang=`.
sub choose_language {
  # The first of them that Accept-Language names, and nothing else of it: Varnish would keep each page once for each text of the header.
  # Clients send the one that they prefer first; `de-AT` is met by `de`, and `q=0` refuses.
  set req.http.accept-language = regsub(std.tolower(req.http.accept-language),
    "^(?:.*?,)??\s*(en|de|fr|es)(?:-[a-z0-9-]*)?\s*(?:;(?!\s*q=0(?:\.0*)?\s*(?:,|$))[^,]*)?(?:,.*)?$|^.*$",
    "\1");
}
