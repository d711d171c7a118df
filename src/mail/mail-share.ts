import { createHash } from 'node:crypto'
import type { WorkOptions } from '../deliveries/delivery-worker.ts'
import type { ReceiverShare } from '../deliveries/receivers.ts'

/**
 * The receiver of a mail to this address: a short hash of its domain, because a domain's server may be slow. Many
 * domains share a hash, because a domain can belong to a single person.
 */
export function receiverOfAddress(address: string): string {
  const domain = address.slice(address.lastIndexOf('@') + 1).toLowerCase()
  return createHash('sha256').update(domain).digest('hex').slice(0, 4)
}

/**
 * The receiver of a staff mail. It differs from the receiver of the address's domain, so a failure of staff mails does
 * not affect customers in the same domain.
 */
export function receiverOfStaff(address: string): string {
  return `staff-${createHash('sha256').update(address.toLowerCase()).digest('hex').slice(0, 8)}`
}

const SLOW_MS = 5_000

/**
 * The share of a receiver. Each of the two workers gives new, slow or failing domains at most a quarter of the
 * connections to the mail server, so half of them stay free.
 */
function shareOf(perReceiver: number, connections: number): ReceiverShare {
  return { perReceiver: Math.max(1, Math.floor(perReceiver)), suspects: Math.max(1, Math.floor(connections / 4)), slowMs: SLOW_MS }
}

/**
 * How order mails use the connections. There are more places than connections, so no connection waits while other mails
 * are recorded: see docs/decisions/mail.md. One domain gets at most ten of sixteen connections.
 */
export function orderMailWork(connections: number): WorkOptions {
  return { places: 64, share: shareOf((connections * 5) / 8, connections) }
}

/**
 * How account mails use the connections. Together with order mails, one domain gets at most twelve of sixteen
 * connections.
 */
export function accountMailWork(connections: number): WorkOptions {
  return { places: 20, share: shareOf(connections / 8, connections) }
}
