import { createHash } from 'node:crypto'
import type { WorkOptions } from '../deliveries/delivery-worker.ts'
import type { ReceiverShare } from '../deliveries/receivers.ts'

/**
 * A mail's receiver: a short hash of the recipient's domain, whose server may be slow. Many domains share a hash,
 * because a domain can belong to one person.
 */
export function receiverOfAddress(address: string): string {
  const domain = address.slice(address.lastIndexOf('@') + 1).toLowerCase()
  return createHash('sha256').update(domain).digest('hex').slice(0, 4)
}

/**
 * A staff mail's receiver. It is separate from its domain, where customers may be too, so its failures do not affect
 * them.
 */
export function receiverOfStaff(address: string): string {
  return `staff-${createHash('sha256').update(address.toLowerCase()).digest('hex').slice(0, 8)}`
}

const SLOW_MS = 5_000

/** New, slow or failing domains together occupy at most half of the connections to the mail server. */
function shareOf(perReceiver: number, connections: number): ReceiverShare {
  return { perReceiver: Math.max(1, Math.floor(perReceiver)), suspects: Math.max(1, Math.floor(connections / 4)), slowMs: SLOW_MS }
}

/**
 * How order mails use the connections. There are more places than connections, so no connection waits while other mails
 * are recorded: docs/decisions/mail.md. One domain gets at most ten of sixteen connections.
 */
export function orderMailWork(connections: number): WorkOptions {
  return { places: 64, share: shareOf((connections * 5) / 8, connections) }
}

/** Account mails. Together with order mails, one domain gets at most twelve of sixteen connections. */
export function accountMailWork(connections: number): WorkOptions {
  return { places: 20, share: shareOf(connections / 8, connections) }
}
