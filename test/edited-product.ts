/** What operators see of a product that has only what customers see. */
export const ONLY_FOR_OPERATORS = {
  translations: {},
  prices: [],
  sale_prices: [],
  status: 'active',
  published_at: null,
  unpublished_at: null,
  archived_at: null,
}
