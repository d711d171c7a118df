import { createHash } from 'node:crypto'
import type { WorkOptions } from '../deliveries/delivery-worker.ts'
import type { ReceiverShare } from '../deliveries/receivers.ts'

/**
 * The receiver of a mail: its recipient's domain, whose server may be slow. Shortened until many domains share a name, because a domain can belong
 * to one person.
 */
export function receiverOfAddress(address: string): string {
  const domain = address.slice(address.lastIndexOf('@') + 1).toLowerCase()
  return createHash('sha256').update(domain).digest('hex').slice(0, 4)
}

/** The receiver of a mail to the staff: its own failures are not those of its domain, where customers may be, too. */
export function receiverOfStaff(address: string): string {
  return `staff-${createHash('sha256').update(address.toLowerCase()).digest('hex').slice(0, 8)}`
}

const SLOW_MS = 5_000

/** Domains that are new, slow or failing together occupy at most half of the connections to the mail server. */
function shareOf(perReceiver: number, connections: number): ReceiverShare {
  return { perReceiver: Math.max(1, Math.floor(perReceiver)), suspects: Math.max(1, Math.floor(connections / 4)), slowMs: SLOW_MS }
}

/**
 * More places than connections, so that none of these waits while other mails are recorded: docs/decisions/mail.md. One
 * domain gets ten of sixteen connections.
 */
export function orderMailWork(connections: number): WorkOptions {
  return { places: 64, share: shareOf((connections * 5) / 8, connections) }
}

/** Work of account mails. Together with order mails one domain gets at most twelve of sixteen connections. */
export function accountMailWork(connections: number): WorkOptions {
  return { places: 20, share: shareOf(connections / 8, connections) }
}
