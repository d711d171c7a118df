import { createHmac, timingSafeEqual } from 'node:crypto'
import { deriveKey } from '../auth/encryption.ts'
import { canonicalJson } from '../encoding.ts'
import type { ShippingAddress } from '../orders/postal-address.ts'

/** How long a mail's link to its order is valid. */
export const ORDER_LINK_DAYS = 90
const DAY_MS = 86_400_000
const ID_BYTES = 16
const EXPIRY_BYTES = 4
const RECIPIENT_BYTES = 12
const SIGNED_BYTES = ID_BYTES + EXPIRY_BYTES + RECIPIENT_BYTES
const TAG_BYTES = 16
const TOKEN_LENGTH = ((SIGNED_BYTES + TAG_BYTES) / 3) * 4

/** The person who got a link by mail. The link ends when either address changes. */
export interface LinkRecipient {
  /** Where the order's mails go. */
  email: string
  shippingAddress: ShippingAddress | null
}

/** A link that this store has made and that has not expired. */
export interface OpenedLink {
  orderId: string
  /** Whether the link was mailed to this recipient. */
  isFor(recipient: LinkRecipient): boolean
}

/**
 * Makes and opens the tokens of links to orders. A token is its order's id, its expiry in Unix seconds, a keyed hash of
 * the recipient, and a tag over these; nothing of it is stored. See docs/decisions/0350-links-to-orders.md.
 */
export interface OrderLinks {
  make(link: LinkRecipient & { orderId: string; mailedAt: Date }): string
  /** Returns null, without reading anything, for a token of another store, a changed one, and an expired one. */
  open(token: string, now: Date): OpenedLink | null
  /** Whether this is the address's postal code, however it is written. Takes the same time for every address. */
  isPostalCodeOf(address: ShippingAddress | null, postalCode: string): boolean
}

export function createOrderLinks(secret: string): OrderLinks {
  const key = deriveKey(secret, 'order link')
  const mac = (purpose: string, data: Buffer | string) => createHmac('sha256', key).update(`${purpose}\n`).update(data).digest()
  const tagOf = (signed: Buffer) => mac('token', signed).subarray(0, TAG_BYTES)
  const hashOf = (orderId: string, { email, shippingAddress }: LinkRecipient) =>
    mac('recipient', canonicalJson([orderId, email, shippingAddress])).subarray(0, RECIPIENT_BYTES)

  return {
    make({ orderId, mailedAt, email, shippingAddress }) {
      const signed = Buffer.concat([
        Buffer.from(orderId.replaceAll('-', ''), 'hex'),
        toSeconds(mailedAt.getTime() + ORDER_LINK_DAYS * DAY_MS),
        hashOf(orderId, { email, shippingAddress }),
      ])
      return Buffer.concat([signed, tagOf(signed)]).toString('base64url')
    },
    open(token, now) {
      // No bit of a token of this length is without meaning, so no two texts are one token.
      if (token.length !== TOKEN_LENGTH || !/^[\w-]+$/.test(token)) return null
      const bytes = Buffer.from(token, 'base64url')
      const signed = bytes.subarray(0, SIGNED_BYTES)
      if (!timingSafeEqual(bytes.subarray(SIGNED_BYTES), tagOf(signed))) return null
      if (signed.readUInt32BE(ID_BYTES) * 1_000 <= now.getTime()) return null
      const orderId = signed.toString('hex', 0, ID_BYTES).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
      const hash = signed.subarray(ID_BYTES + EXPIRY_BYTES)
      return { orderId, isFor: (recipient) => timingSafeEqual(hash, hashOf(orderId, recipient)) }
    },
    isPostalCodeOf(address, postalCode) {
      const [own, given] = [address?.postal_code ?? '', postalCode].map(normalize)
      return timingSafeEqual(mac('postal code', own ?? ''), mac('postal code', given ?? '')) && own !== ''
    },
  }
}

function toSeconds(ms: number): Buffer {
  const bytes = Buffer.alloc(EXPIRY_BYTES)
  bytes.writeUInt32BE(Math.floor(ms / 1_000))
  return bytes
}

/** `sw1y-4jh` is `SW1Y 4JH`. */
function normalize(postalCode: string): string {
  return postalCode
    .normalize('NFKC')
    .toUpperCase()
    .replaceAll(/[^\p{L}\p{N}]/gu, '')
}
