-- Where an order's mails go by an amendment, instead of the address of its account or guest.
alter table orders add column email text;
-- What amendments have replaced, by the place of the amendment in `status_history`, from 0: makes earlier versions again.
alter table orders add column former_values jsonb;
