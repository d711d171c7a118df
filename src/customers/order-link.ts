import { createHmac, timingSafeEqual } from 'node:crypto'
import { deriveKey } from '../auth/encryption.ts'
import { canonicalJson } from '../encoding.ts'
import type { ShippingAddress } from '../orders/postal-address.ts'

export const ORDER_LINK_DAYS = 90
const DAY_MS = 86_400_000
const ID_BYTES = 16
const EXPIRY_BYTES = 4
const RECIPIENT_BYTES = 12
const SIGNED_BYTES = ID_BYTES + EXPIRY_BYTES + RECIPIENT_BYTES
/** Vehicle country codes that people write before postal codes, such as Germany's D. */
const VEHICLE_SIGN = /^(?:[A-Z]|FIN|FL|SLO)$/
const TAG_BYTES = 16
const TOKEN_LENGTH = ((SIGNED_BYTES + TAG_BYTES) / 3) * 4

/** The recipient of a mailed link. The link ends when either address changes. */
export interface LinkRecipient {
  /** The address to which the order's mails go. */
  email: string
  shippingAddress: ShippingAddress | null
}

/** A link that this store has made at any time. */
export interface OpenedLink {
  orderId: string
  expiresAt: Date
  /** Identifies the order and the recipient. All of a recipient's links to one order have the same value. */
  holder: string
  /** Whether the link was mailed to this recipient. */
  isFor(recipient: LinkRecipient): boolean
}

/**
 * Makes and opens the tokens of order links. A token is the order id, the expiry in Unix seconds, a keyed hash of the
 * recipient, and a tag over these. The store keeps no copy. See docs/decisions/customers-order-links.md.
 */
export interface OrderLinks {
  make(link: LinkRecipient & { orderId: string; mailedAt: Date }): string
  /** Returns null for a changed token or for another store's token. */
  open(token: string): OpenedLink | null
  /** Whether this is the address's postal code in any spelling. The check takes the same time for every address. */
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
    open(token) {
      // Every bit of a token of this length counts, so different texts are always different tokens.
      if (token.length !== TOKEN_LENGTH || !/^[\w-]+$/.test(token)) return null
      const bytes = Buffer.from(token, 'base64url')
      const signed = bytes.subarray(0, SIGNED_BYTES)
      if (!timingSafeEqual(bytes.subarray(SIGNED_BYTES), tagOf(signed))) return null
      const expiresAt = new Date(signed.readUInt32BE(ID_BYTES) * 1_000)
      const orderId = signed.toString('hex', 0, ID_BYTES).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
      const hash = signed.subarray(ID_BYTES + EXPIRY_BYTES)
      const holder = `${orderId} ${hash.toString('base64url')}`
      return { orderId, expiresAt, holder, isFor: (recipient) => timingSafeEqual(hash, hashOf(orderId, recipient)) }
    },
    isPostalCodeOf(address, postalCode) {
      const own = plainPostalCode(address)
      const given = plainPostalCode({ country: address?.country ?? '', postal_code: postalCode })
      return timingSafeEqual(mac('postal code', own), mac('postal code', given)) && own !== ''
    },
  }
}

function toSeconds(ms: number): Buffer {
  const bytes = Buffer.alloc(EXPIRY_BYTES)
  bytes.writeUInt32BE(Math.floor(ms / 1_000))
  return bytes
}

/**
 * The postal code in one spelling: `sw1y-4jh` becomes `SW1Y4JH`. Removes a country prefix (`LV-1010`, `D-10115`) and
 * the second part of a ZIP+4, and converts Arabic digits. Returns '' for an address without a code.
 */
export function plainPostalCode(address: Pick<ShippingAddress, 'country' | 'postal_code'> | null): string {
  if (address === null) return ''
  const text = (address.postal_code ?? '')
    .normalize('NFKC')
    .replaceAll(/[\u0660-\u0669\u06f0-\u06f9]/g, (digit) => String(digit.charCodeAt(0) & 0xf))
    .toUpperCase()
    .trim()
  const [prefix = '', letters = '', dash] = /^(\p{L}+)(\p{Pd}?)\s*(?=\d)/u.exec(text) ?? []
  const isCountry = letters === address.country || (dash !== '' && VEHICLE_SIGN.test(letters))
  return text
    .slice(isCountry ? prefix.length : 0)
    .replaceAll(/[^\p{L}\p{N}]/gu, '')
    .replace(/^(\d{5})\d{4}$/, '$1')
}
