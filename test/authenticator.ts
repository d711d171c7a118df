import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'

/** What an answer says, to forge it: each is right by default. */
export interface Forgery {
  origin?: string
  rpId?: string
  challenge?: string
  type?: string
  signCount?: number
  isUserVerified?: boolean
  crossOrigin?: boolean
  userHandle?: string
  id?: string
  /** Signs with it instead of the authenticator's own key. */
  privateKey?: KeyObject
}

/** An authenticator with one ES256 key, which can lie; its answers have the form of browsers' `toJSON()`. */
export function createAuthenticator(origin = 'http://localhost:3000', rpId = 'localhost') {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const id = randomBytes(16).toString('base64url')
  let counter = 0
  let userHandle = 'AA'

  const clientData = (type: string, challenge: string, forgery: Forgery) =>
    Buffer.from(
      JSON.stringify({
        type: forgery.type ?? type,
        challenge: forgery.challenge ?? challenge,
        origin: forgery.origin ?? origin,
        crossOrigin: forgery.crossOrigin ?? false,
      }),
    )
  const authenticatorData = (forgery: Forgery, attested: Buffer) => {
    const flags = 0x01 | (forgery.isUserVerified === false ? 0 : 0x04) | (attested.length > 0 ? 0x40 : 0)
    const count = Buffer.alloc(4)
    count.writeUInt32BE(forgery.signCount ?? counter)
    return Buffer.concat([
      createHash('sha256')
        .update(forgery.rpId ?? rpId)
        .digest(),
      Buffer.from([flags]),
      count,
      attested,
    ])
  }

  return {
    id,
    /** Answers `navigator.credentials.create`. */
    register(options: { challenge: string; user: { id: string } }, forgery: Forgery = {}) {
      userHandle = options.user.id
      counter = forgery.signCount ?? 0
      const credentialId = Buffer.from(id, 'base64url')
      const length = Buffer.alloc(2)
      length.writeUInt16BE(credentialId.length)
      const attested = Buffer.concat([Buffer.alloc(16), length, credentialId, coseKey(publicKey)])
      const data = authenticatorData(forgery, attested)
      const attestationObject = Buffer.concat([
        Buffer.from([0xa3]),
        ...[text('fmt'), text('none'), text('attStmt'), Buffer.from([0xa0])],
        ...[text('authData'), bytes(data)],
      ])
      return {
        ...{ id, rawId: id, type: 'public-key', clientExtensionResults: {} },
        response: {
          clientDataJSON: clientData('webauthn.create', options.challenge, forgery).toString('base64url'),
          attestationObject: attestationObject.toString('base64url'),
          transports: ['internal'],
        },
      }
    },
    /** Answers `navigator.credentials.get`. Counts to `signCount` if that is given. */
    answer(options: { challenge: string }, forgery: Forgery = {}) {
      counter = forgery.signCount ?? counter
      const client = clientData('webauthn.get', options.challenge, forgery)
      const data = authenticatorData(forgery, Buffer.alloc(0))
      const signed = Buffer.concat([data, createHash('sha256').update(client).digest()])
      const credentialId = forgery.id ?? id
      return {
        ...{ id: credentialId, rawId: credentialId, type: 'public-key', clientExtensionResults: {} },
        response: {
          clientDataJSON: client.toString('base64url'),
          authenticatorData: data.toString('base64url'),
          signature: sign('sha256', signed, forgery.privateKey ?? privateKey).toString('base64url'),
          userHandle: forgery.userHandle ?? userHandle,
        },
      }
    },
  }
}

export type Authenticator = ReturnType<typeof createAuthenticator>

/** RFC 9052 §7: an EC2 key for ES256. */
function coseKey(key: KeyObject): Buffer {
  const { x = '', y = '' } = key.export({ format: 'jwk' })
  const coordinate = (value: string) => bytes(Buffer.from(value, 'base64url'))
  // {1: 2, 3: -7, -1: 1, -2: x, -3: y}
  return Buffer.concat([Buffer.from([0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21]), coordinate(x), Buffer.from([0x22]), coordinate(y)])
}

function text(value: string): Buffer {
  return Buffer.concat([Buffer.from([0x60 + value.length]), Buffer.from(value)])
}

function bytes(value: Buffer): Buffer {
  const head = value.length < 256 ? [0x58, value.length] : [0x59, value.length >> 8, value.length & 255]
  return Buffer.concat([Buffer.from(head), value])
}
