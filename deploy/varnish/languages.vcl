vcl 4.1;

# Included by default.vcl: the languages that pages of the catalogue are kept in. Name the language of the products' own texts
# (CATALOGUE_LANGUAGE) and those of their translations, in lower case, a longer tag before its beginning: zh-hant|zh. The store answers a
# language that is missing here only to `lang=`.
sub mark_languages {
  set req.http.accept-language = regsuball(req.http.accept-language, ",(en|de|fr|es)(?:-[a-z0-9-]*)?(?=[;,])", ",=\1");
}

# Keeps the languages whose quality begins with the highest digit, and removes that digit.
sub keep_highest_digit {
  if (req.http.accept-language ~ ":9") {
    set req.http.accept-language = regsuball(regsuball(req.http.accept-language, ",[a-z0-9-]+:[^9][0-9]*(?=,)", ""), ":9", ":");
  } elsif (req.http.accept-language ~ ":8") {
    set req.http.accept-language = regsuball(regsuball(req.http.accept-language, ",[a-z0-9-]+:[^8][0-9]*(?=,)", ""), ":8", ":");
  } elsif (req.http.accept-language ~ ":7") {
    set req.http.accept-language = regsuball(regsuball(req.http.accept-language, ",[a-z0-9-]+:[^7][0-9]*(?=,)", ""), ":7", ":");
  } elsif (req.http.accept-language ~ ":6") {
    set req.http.accept-language = regsuball(regsuball(req.http.accept-language, ",[a-z0-9-]+:[^6][0-9]*(?=,)", ""), ":6", ":");
  } elsif (req.http.accept-language ~ ":5") {
    set req.http.accept-language = regsuball(regsuball(req.http.accept-language, ",[a-z0-9-]+:[^5][0-9]*(?=,)", ""), ":5", ":");
  } elsif (req.http.accept-language ~ ":4") {
    set req.http.accept-language = regsuball(regsuball(req.http.accept-language, ",[a-z0-9-]+:[^4][0-9]*(?=,)", ""), ":4", ":");
  } elsif (req.http.accept-language ~ ":3") {
    set req.http.accept-language = regsuball(regsuball(req.http.accept-language, ",[a-z0-9-]+:[^3][0-9]*(?=,)", ""), ":3", ":");
  } elsif (req.http.accept-language ~ ":2") {
    set req.http.accept-language = regsuball(regsuball(req.http.accept-language, ",[a-z0-9-]+:[^2][0-9]*(?=,)", ""), ":2", ":");
  } elsif (req.http.accept-language ~ ":1") {
    set req.http.accept-language = regsuball(regsuball(req.http.accept-language, ",[a-z0-9-]+:[^1][0-9]*(?=,)", ""), ":1", ":");
  } elsif (req.http.accept-language ~ ":0") {
    set req.http.accept-language = regsuball(regsuball(req.http.accept-language, ",[a-z0-9-]+:[^0][0-9]*(?=,)", ""), ":0", ":");
  }
}

# The one of them that Accept-Language prefers, and nothing else of it: Varnish would keep each page once for each text of the header.
# The highest `q` counts, of several the first; `de-AT` is met by `de`, and `q=0` refuses. What is no list of languages is skipped.
sub choose_language {
  set req.http.accept-language = "," + regsuball(std.tolower(req.http.accept-language), "[ \t]+", "") + ",";
  call mark_languages;
  set req.http.accept-language = regsuball(req.http.accept-language,
    ",(?!=[a-z0-9-]+(?:;q=(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)?)?,)[^,]*(?=,)", "");
  # `,de:1000,fr:0850,`: the quality in four digits, of which the highest are kept, one after the other.
  set req.http.accept-language = regsuball(req.http.accept-language, ",=([a-z0-9-]+)(?:;q=(?:1[.0]*)?)?(?=,)", ",\1:1000");
  set req.http.accept-language = regsuball(req.http.accept-language, ",=([a-z0-9-]+);q=0\.?([0-9]*)(?=,)", ",\1:0\2000");
  set req.http.accept-language = regsuball(req.http.accept-language, ":([0-9]{4})[0-9]*", ":\1");
  set req.http.accept-language = regsuball(req.http.accept-language, ",[a-z0-9-]+:0000(?=,)", "");
  call keep_highest_digit;
  call keep_highest_digit;
  call keep_highest_digit;
  call keep_highest_digit;
  set req.http.accept-language = regsub(req.http.accept-language, "^,(?:([a-z0-9-]+):.*)?$", "\1");
}
