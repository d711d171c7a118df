-- no transaction
-- functions: 969a0794b7bb8ccf
create index concurrently if not exists users_search_words_idx on users using gin (user_search_words(email, name) gin_trgm_ops);

do $$
declare
  batch record;
  behind bigint := 0;
begin
  loop
    select last, written into batch from mend_order_search_texts(behind, 500);
    commit;
    exit when batch.last is null;
    behind := batch.last;
    if behind % 100000 < 500 then
      raise notice 'the texts of the orders up to number % can be searched', behind;
    end if;
  end loop;
end
$$;

analyze order_search_texts;

analyze users;
