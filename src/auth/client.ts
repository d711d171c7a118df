import type { FastifyRequest } from 'fastify'
import { clientAddress } from '../http/client-address.ts'

/** What happened to an account, for the record. The names are stable: alerts are built on them. docs/security.md lists them. */
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

/** Ids and limit names only: never an address of a mailbox, a token or a password. */
export interface SecurityFields {
  user_id?: string
  session_id?: string
  limit?: string
  reason?: string
}

/** Who is at the other end of a request, logged in or not. */
export interface Client {
  /** IP address. */
  address: string
  userAgent: string | null
  /** Writes one line to the log, with the request's id and the client's address. */
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
