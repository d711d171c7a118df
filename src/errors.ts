/** `http/problem.ts` has the HTTP status of each code, `docs/shop/errors.md` its meaning for clients. */
export type ErrorCode =
  | 'malformed_request'
  | 'malformed_json'
  | 'invalid_header'
  | 'invalid_query'
  | 'invalid_cursor'
  | 'unauthenticated'
  | 'invalid_token'
  | 'invalid_credentials'
  | 'invalid_sign_in'
  | 'invalid_refresh_token'
  | 'forbidden'
  | 'invalid_signature'
  | 'second_factor_required'
  | 'second_factor_setup_required'
  | 'step_up_required'
  | 'account_blocked'
  | 'not_found'
  | 'method_not_allowed'
  | 'email_taken'
  | 'last_admin'
  | 'address_unproven'
  | 'passkey_taken'
  | 'too_many_passkeys'
  | 'totp_active'
  | 'sign_in_taken'
  | 'provider_linked'
  | 'last_sign_in'
  | 'insufficient_stock'
  | 'stock_not_tracked'
  | 'adjustment_reference_taken'
  | 'sku_taken'
  | 'slug_taken'
  | 'category_misplaced'
  | 'category_name_taken'
  | 'category_not_empty'
  | 'too_many_categories'
  | 'group_too_large'
  | 'illegal_transition'
  | 'quantity_exceeded'
  | 'change_reference_taken'
  | 'refund_exceeded'
  | 'order_erased'
  | 'too_late_to_amend'
  | 'total_negative'
  | 'too_many_changes'
  | 'client_reference_taken'
  | 'probably_placed_already'
  | 'mail_not_failed'
  | 'mail_not_sent'
  | 'mail_not_repeatable'
  | 'price_changed'
  | 'purchase_limit'
  | 'too_many_pending_orders'
  | 'too_many_addresses'
  | 'request_in_progress'
  | 'webhook_disabled'
  | 'webhook_exists'
  | 'too_many_webhooks'
  | 'api_key_ended'
  | 'too_many_api_keys'
  | 'misdirected_request'
  | 'precondition_failed'
  | 'payload_too_large'
  | 'unsupported_media_type'
  | 'invalid_body'
  | 'password_too_common'
  | 'invalid_one_time_token'
  | 'invalid_order_link'
  | 'wrong_postal_code'
  | 'invalid_challenge'
  | 'invalid_second_factor'
  | 'unknown_product'
  | 'mixed_currencies'
  | 'currency_not_available'
  | 'total_too_large'
  | 'idempotency_key_reused'
  | 'query_refused'
  | 'query_timeout'
  | 'if_match_required'
  | 'idempotency_key_required'
  | 'rate_limited'
  | 'unavailable'
  | 'overloaded'
  | 'internal'

/** `pointer` is an RFC 6901 JSON pointer as a URI fragment, `parameter` a query or header name. */
export interface FieldError {
  pointer?: string
  parameter?: string
  detail: string
}

/** More about a refusal. `members` become extension members of the problem (RFC 9457 §3.2). */
export interface ErrorDetails {
  errors?: FieldError[]
  members?: Record<string, unknown>
  headers?: Record<string, string>
  cause?: unknown
}

/** A refusal that a caller may see. Any other error is a bug or an outage. */
export class AppError extends Error {
  override readonly name = 'AppError'
  readonly code: ErrorCode
  readonly details: ErrorDetails

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, { cause: details.cause })
    this.code = code
    this.details = details
  }
}

export function notFound(what: string): AppError {
  return new AppError('not_found', `There is no such ${what}.`)
}

/** An operator can repair it. The message is one line with problem and remedy, without secrets. */
export class OperatorError extends Error {
  override readonly name: string = 'OperatorError'
  readonly exitStatus: number

  constructor(message: string, options: ErrorOptions & { exitStatus?: number } = {}) {
    super(message, options)
    this.exitStatus = options.exitStatus ?? 1
  }
}
