-- What operators find an account by. A blank precedes each word.
create or replace function user_search_words(email text, name text) returns text
  language sql immutable parallel safe
  return concat_ws(' ', '', search_folded(name), search_folded(email));
