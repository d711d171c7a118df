import { Type } from 'typebox'
import { callerOf } from '../../http/caller.ts'
import { defineRoute } from '../../http/define-route.ts'
import type { HttpServer } from '../../http/http-server.ts'
import { ownChangeOf } from '../client.ts'
import type { AuthContext } from '../context.ts'
import {
  addPasskey,
  askForNewPasskey,
  confirmTotp,
  removePasskey,
  removeTotp,
  renamePasskey,
  renewRecoveryCodes,
  startTotp,
} from './change-factors.ts'
import { listFactors, presentPasskey } from './list-factors.ts'
import {
  asAttestation,
  FactorsSchema,
  NewPasskey,
  NewPasskeyRequest,
  PasskeyAdded,
  PasskeyChange,
  PasskeySchema,
  RecoveryCodes,
  TotpConfirmation,
  TotpConfirmed,
  TotpSetup,
} from './schemas.ts'

const PasskeyParams = Type.Object({ id: Type.String({ format: 'uuid', description: 'The id of the passkey.' }) })
/** Routes for the passkeys, authenticator app and recovery codes of the caller's account. */
export function factorRoutes(server: HttpServer, context: AuthContext): void {
  defineRoute(
    server,
    'GET /me/factors',
    {
      access: 'caller',
      cost: 'own',
      operationId: 'listFactors',
      summary: "The caller's passkeys, authenticator app and recovery codes",
      description: 'The answer has no secrets: codes and keys are shown only when they are made.',
      answers: { 200: [FactorsSchema, 'The second factors of the account.'] },
    },
    (request) => listFactors(context.pool, callerOf(request)),
  )

  defineRoute(
    server,
    'POST /me/totp',
    {
      access: 'caller',
      cost: 'change',
      stepUp: 'always',
      operationId: 'startTotp',
      summary: 'Begins to set up an authenticator app',
      description:
        'The codes follow RFC 6238: SHA-1, six digits, thirty seconds. No sign-in asks for a code before `POST /me/totp/confirm`.',
      answers: { 200: [TotpSetup, 'The secret, shown once.'] },
      refuses: ['totp_active'],
    },
    (request) => startTotp(context, callerOf(request)),
  )

  defineRoute(
    server,
    'POST /me/totp/confirm',
    {
      access: 'caller',
      cost: 'change',
      stepUp: 'always',
      operationId: 'confirmTotp',
      summary: 'Sets up the authenticator app with its first code',
      description: 'Every sign-in with the password asks for a second factor from now on. If the account had none, its other sessions end.',
      body: TotpConfirmation,
      answers: { 200: [TotpConfirmed, 'Recovery codes, shown only once. Null if the account already has some.'] },
      refuses: ['invalid_second_factor'],
    },
    async (request) => {
      const { recoveryCodes } = await confirmTotp(context, request.body.totp_code, ownChangeOf(request))
      return { recovery_codes: recoveryCodes }
    },
  )

  defineRoute(
    server,
    'DELETE /me/totp',
    {
      access: 'caller',
      cost: 'change',
      stepUp: 'always',
      operationId: 'removeTotp',
      summary: 'Removes the authenticator app',
      description: 'Ends the other sessions. Removing the only second factor also deletes the recovery codes.',
      answers: { 204: 'The app is removed.' },
      refuses: ['not_found'],
    },
    (request) => removeTotp(context, ownChangeOf(request)),
  )

  defineRoute(
    server,
    'POST /me/passkeys/options',
    {
      access: 'caller',
      cost: 'change',
      stepUp: 'always',
      operationId: 'beginPasskeyRegistration',
      summary: 'Begins to register a passkey',
      description: 'The challenge can be used once, within five minutes, by this session.',
      answers: { 200: [NewPasskeyRequest, 'The options for the passkey call of the browser.'] },
    },
    (request) => askForNewPasskey(context, callerOf(request)),
  )

  defineRoute(
    server,
    'POST /me/passkeys',
    {
      access: 'caller',
      cost: 'change',
      stepUp: 'always',
      operationId: 'addPasskey',
      summary: 'Registers a passkey',
      description:
        'An account can have 20 passkeys, one for each device or keychain. Customers can sign in with a passkey or with their password. An operator with a passkey needs ' +
        'a passkey, or another second factor, at each sign-in.',
      body: NewPasskey,
      answers: {
        201: [PasskeyAdded, 'The passkey. If the account has no recovery codes, the answer also has new ones, which are shown only once.'],
      },
      refuses: ['invalid_challenge', 'invalid_second_factor', 'passkey_taken', 'too_many_passkeys'],
    },
    async (request) => {
      const { name, passkey: response } = request.body
      const { passkey, recoveryCodes } = await addPasskey(context, { name, passkey: asAttestation(response) }, ownChangeOf(request))
      return { passkey: presentPasskey(passkey), recovery_codes: recoveryCodes }
    },
  )

  defineRoute(
    server,
    'PATCH /me/passkeys/:id',
    {
      access: 'caller',
      cost: 'change',
      stepUp: 'always',
      operationId: 'renamePasskey',
      summary: "Renames one of the caller's passkeys",
      description: 'The name appears only in the list of passkeys. The device or keychain keeps its own name.',
      params: PasskeyParams,
      body: PasskeyChange,
      answers: { 200: [PasskeySchema, 'The renamed passkey.'] },
    },
    async (request) => {
      const passkey = await renamePasskey(context, { id: request.params.id, name: request.body.name }, ownChangeOf(request))
      return presentPasskey(passkey)
    },
  )

  defineRoute(
    server,
    'DELETE /me/passkeys/:id',
    {
      access: 'caller',
      cost: 'change',
      stepUp: 'always',
      operationId: 'removePasskey',
      summary: "Removes one of the caller's passkeys",
      description:
        'Ends the other sessions. Removing the only second factor also deletes the recovery codes. The only way to sign in cannot be removed.',
      params: PasskeyParams,
      answers: { 204: 'The passkey is removed.' },
      refuses: ['last_sign_in'],
    },
    (request) => removePasskey(context, request.params.id, ownChangeOf(request)),
  )

  defineRoute(
    server,
    'POST /me/recovery-codes',
    {
      access: 'caller',
      cost: 'change',
      stepUp: 'always',
      operationId: 'renewRecoveryCodes',
      summary: 'Replaces the recovery codes',
      description: 'The earlier codes stop working.',
      answers: { 200: [RecoveryCodes, 'The codes, shown once.'] },
      refuses: ['not_found'],
    },
    async (request) => {
      const { recoveryCodes } = await renewRecoveryCodes(context, ownChangeOf(request))
      return { recovery_codes: recoveryCodes }
    },
  )
}
