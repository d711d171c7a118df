import type { FastifyRequest } from 'fastify'
import { clientAddress } from '../http/client-address.ts'

/** Names in the security log. They are stable, because alerts depend on them; docs/security.md lists them. */
export type SecurityEvent =
  | 'registered'
  | 'registration_pending'
  | 'registration_refused'
  | 'email_verified'
  | 'email_verification_failed'
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
  | 'account_deleted'
  | 'throttled'

/** Ids and limit names only: never an e-mail address, a token or a password. */
export interface SecurityFields {
  user_id?: string
  session_id?: string
  limit?: string
  reason?: string
}

/** The client of a request, logged in or not. */
export interface Client {
  /** IP address. */
  address: string
  userAgent: string | null
  /** Logs one line with the request's id and the client's address. */
  record(event: SecurityEvent, fields?: SecurityFields): void
}

export function clientOf(request: FastifyRequest): Client {
  const address = clientAddress(request)
  return {
    address,
    userAgent: request.headers['user-agent'] ?? null,
    record(event, fields = {}) {
      request.log.info({ event, ...fields, client_address: address }, 'security event')
    },
  }
}
