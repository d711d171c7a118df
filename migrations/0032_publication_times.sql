-- An import of a line that names only one of the times is checked by nothing else.
alter table products
  add constraint products_times_ordered check (published_at < unpublished_at) not valid;
