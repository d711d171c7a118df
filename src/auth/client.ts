import type { FastifyRequest } from 'fastify'
import { type AuditContext, auditContextOf } from '../activity/record-activity.ts'
import { type AccountCaller, callerOf } from '../http/caller.ts'
import { clientAddress } from '../http/client-address.ts'
import { isOperatorRole } from '../http/scopes.ts'
import { traceIdOfRequest } from '../http/trace-context.ts'
import { type Language, preferredLanguage } from '../language.ts'

/** Event names in the security log. Alerts depend on them, so they are stable; docs/inside/security.md lists them. */
export type SecurityEvent =
  | 'registered'
  | 'registration_pending'
  | 'registration_refused'
  | 'email_verified'
  | 'email_verification_failed'
  | 'guest_created'
  | 'logged_in'
  | 'login_failed'
  | 'password_rehashed'
  | 'refreshed'
  | 'refresh_failed'
  | 'refresh_reuse_detected'
  | 'logged_out'
  | 'session_ended'
  | 'password_changed'
  | 'password_change_failed'
  | 'password_reset_requested'
  | 'password_reset'
  | 'account_changed'
  | 'email_proof_requested'
  | 'email_change_requested'
  | 'email_change_refused'
  | 'email_changed'
  | 'email_change_reverted'
  | 'oidc_linked'
  | 'oidc_unlinked'
  | 'oidc_refused'
  | 'account_deleted'
  | 'api_key_created'
  | 'api_key_rotated'
  | 'api_key_revoked'
  | 'api_key_refused'
  | 'second_factor_required'
  | 'second_factor_failed'
  | 'second_factor_added'
  | 'second_factor_removed'
  | 'recovery_code_used'
  | 'passkey_refused'
  | 'stepped_up'
  | 'step_up_failed'
  | 'account_exported'
  | 'throttled'

/** Contains only ids and names of limits, never e-mail addresses, tokens or passwords. */
export interface SecurityFields {
  user_id?: string
  session_id?: string
  key_id?: string
  limit?: string
  reason?: string
  method?: string
}

/** A request's client, signed in or not. */
export interface Client {
  /** The IP address. */
  address: string
  userAgent: string | null
  /** The language from Accept-Language; null if the store has none of its languages. */
  language: Language | null
  /** Logs one line with the request's id and the client's address. */
  record(event: SecurityEvent, fields?: SecurityFields): void
}

export function clientOf(request: FastifyRequest): Client {
  const address = clientAddress(request)
  return {
    address,
    userAgent: request.headers['user-agent'] ?? null,
    language: preferredLanguage(request.headers['accept-language']),
    record(event, fields = {}) {
      request.log.info({ trace_id: traceIdOfRequest(request.raw), event, ...fields, client_address: address }, 'security event')
    },
  }
}

/**
 * The caller that changes its own credentials. `auditContext` is null for customers, whose changes are not in the
 * operators' activity log.
 */
export interface OwnChange {
  caller: AccountCaller
  client: Client
  auditContext: AuditContext | null
}

export function ownChangeOf(request: FastifyRequest): OwnChange {
  const caller = callerOf(request)
  return { caller, client: clientOf(request), auditContext: isOperatorRole(caller.role) ? auditContextOf(request) : null }
}
