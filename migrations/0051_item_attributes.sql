-- functions: 0a04d57ad47d5689
-- What a line was ordered with, such as an engraving, by the line's place in `items`. Erased with the addresses. See
-- docs/decisions/orders-notes.md#attributes.
alter table orders add column item_attributes json;
