-- The attributes of a product as terms to filter by: each name, each name=value, and of a list each of its values.
create function attribute_terms(attributes jsonb) returns text[]
  language plpgsql immutable strict parallel safe as $$
begin
  return array(
    -- The API's bounds are below this one, and the index refuses longer terms.
    select left(term, 560)
    from jsonb_each(attributes) as attribute (name, value)
    cross join lateral (
      select name
      union all
      select name || '=' || case jsonb_typeof(value) when 'number' then trim_scale(value::numeric)::text else value #>> '{}' end
      where jsonb_typeof(value) <> 'array'
      union all
      select name || '=' || element
      from jsonb_array_elements_text(case jsonb_typeof(value) when 'array' then value else '[]' end) as list (element)
    ) as terms (term)
  );
end
$$;

-- How frequent each term is, by which the planner chooses between the index and walking a sort: it does not read that of a partial index.
create statistics products_attribute_terms_statistics on (attribute_terms(attributes)) from products;
alter statistics products_attribute_terms_statistics set statistics 400;
