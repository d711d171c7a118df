-- The previous release ignores the column and purges all lists, because `product_ids` is empty in such a row.
alter table catalogue_changes
  -- The tags of the lists that changed, if they are not all lists.
  add column list_tags text[];
