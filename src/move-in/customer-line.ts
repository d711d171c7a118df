import { hash } from 'node:crypto'
import { type Static, Type } from 'typebox'
import { Compile } from 'typebox/schema'
import { parseEmail } from '../auth/email-address.ts'
import { readForeignHash, UnusableHash } from '../auth/passwords/foreign-hash.ts'
import { InvalidLine } from '../catalogue/import/imported-product.ts'
import { AppError } from '../errors.ts'
import { containsLink } from '../http/link-in-text.ts'
import { countCodePoints } from '../http/text-length.ts'
import { checkLine, readTime } from './json-lines.ts'

const MAX_HASH_LENGTH = 500
export const ExternalId = Type.String({ minLength: 1, maxLength: 200 })

const CustomerLine = Type.Object(
  {
    external_id: ExternalId,
    email: Type.Optional(Type.String({ minLength: 1, maxLength: 320 })),
    name: Type.Optional(Type.Union([Type.String({ maxLength: 200 }), Type.Null()])),
    created_at: Type.Optional(Type.String({ maxLength: 40 })),
    address_proven: Type.Optional(Type.Boolean()),
    password: Type.Optional(Type.Union([Type.String({ minLength: 1, maxLength: MAX_HASH_LENGTH }), Type.Null()])),
    guest: Type.Optional(Type.Boolean()),
  },
  { additionalProperties: false },
)
const check = Compile(countCodePoints(CustomerLine))

export interface ImportedCustomer {
  externalId: string
  email: string
  name: string | null
  createdAt: Date
  isAddressProven: boolean
  /** The hash that the other shop stored; null if there is none. */
  passwordHash: string | null
  isGuest: boolean
}

/**
 * Reads a customer's line. With `dropsUnusableHashes`, an unusable hash means no password; otherwise the line is
 * refused. Throws InvalidLine.
 */
export function readCustomer(value: unknown, now: Date, dropsUnusableHashes: boolean): ImportedCustomer {
  const line = checkLine<Static<typeof CustomerLine>>(check, value)
  const isGuest = line.guest === true
  const name = line.name?.trim() || null
  // A stranger may have typed the name with another person's address.
  if (line.address_proven !== true && containsLink(name ?? '')) throw new InvalidLine('name contains a link')
  if (isGuest && line.password) throw new InvalidLine('a guest has no password')
  return {
    externalId: line.external_id,
    email: line.email === undefined ? placeholderOf(line.external_id, isGuest) : readEmail(line.email),
    name,
    createdAt: line.created_at === undefined ? now : readTime(line.created_at, 'created_at', now),
    isAddressProven: line.address_proven === true && !isGuest,
    passwordHash: readHash(line.password ?? null, dropsUnusableHashes),
    isGuest,
  }
}

/** An address that cannot exist (RFC 2606), for a guest who ordered by phone. */
function placeholderOf(externalId: string, isGuest: boolean): string {
  if (!isGuest) throw new InvalidLine('email is missing; only a guest has none')
  return `${hash('sha256', externalId).slice(0, 32)}@no-address.invalid`
}

export function readEmail(text: string): string {
  try {
    return parseEmail(text)
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    throw new InvalidLine('email is no address that mail can be sent to')
  }
}

function readHash(stored: string | null, dropsUnusable: boolean): string | null {
  if (stored === null) return null
  try {
    readForeignHash(stored)
    return stored
  } catch (error) {
    if (!(error instanceof UnusableHash)) throw error
    if (dropsUnusable) return null
    throw new InvalidLine(`password: ${error.message}; with --without-unusable-passwords the customer is imported and sets one by mail`)
  }
}
