import { AppError, type ErrorCode } from '../errors.ts'
import { sqlState } from './sql-state.ts'

/** No other file has these names. */
const REFUSALS: Record<string, { code: ErrorCode; message: string }> = {
  categories_depth_in_range: { code: 'category_misplaced', message: 'The tree of categories has ten levels at most.' },
  categories_name_unique: { code: 'category_name_taken', message: 'The parent has a category with this name already.' },
  categories_no_cycle: { code: 'category_misplaced', message: 'A category cannot be below itself.' },
  categories_parent_id_fkey: { code: 'category_not_empty', message: 'The category has others below it. Move or delete them first.' },
  categories_slug_unique: { code: 'slug_taken', message: 'Another category has this slug. Choose another one.' },
  orders_client_reference_unique: {
    code: 'client_reference_taken',
    message: 'There is an order with this client_reference already.',
  },
  passkeys_credential_id_unique: { code: 'passkey_taken', message: 'This passkey is registered already, for this account or another one.' },
  product_categories_category_id_fkey: { code: 'category_not_empty', message: 'The category has products. Give them another one first.' },
  product_slugs_slug_unique: { code: 'slug_taken', message: 'The slug is or was that of another product, which may be archived.' },
  products_sales_below_price: { code: 'invalid_body', message: 'a sale price must be below the price in its currency' },
  products_sku_unique: { code: 'sku_taken', message: 'A product with this sku exists already; it may be archived.' },
  products_times_ordered: { code: 'invalid_body', message: 'unpublished_at must be after published_at' },
  users_last_admin: { code: 'last_admin', message: 'The store would have no admin.' },
  users_email_unique: { code: 'email_taken', message: 'An account with this e-mail address exists already.' },
}

const CONSTRAINT_CLASS = '23'

export function translateConstraint(error: unknown): unknown {
  const { constraint } = (error ?? {}) as { constraint?: string }
  if (!sqlState(error)?.startsWith(CONSTRAINT_CLASS) || constraint === undefined) return error
  const refusal = REFUSALS[constraint]
  return refusal === undefined ? error : new AppError(refusal.code, refusal.message, { cause: error })
}
