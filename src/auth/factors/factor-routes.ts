import { Type } from 'typebox'
import { callerOf } from '../../http/caller.ts'
import type { HttpServer } from '../../http/http-server.ts'
import { CALLER_ONLY, JSON_BODY, noContentResponses, okResponses, problemResponses } from '../../http/problem.ts'
import type { AuthContext } from '../context.ts'
import { ownChangeOf } from '../own-change.ts'
import { tags } from '../schemas.ts'
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
const STEPPED_UP = [...CALLER_ONLY, 'forbidden', 'step_up_required'] as const
/** A stolen session must not make itself at home. */
const config = { access: 'caller', cost: 'change', stepUp: 'always' } as const

/** Passkeys, authenticator app and recovery codes of the caller's account. */
export function factorRoutes(server: HttpServer, context: AuthContext): void {
  server.get(
    '/me/factors',
    {
      config: { access: 'caller', cost: 'own' },
      schema: {
        operationId: 'listFactors',
        tags,
        summary: "The caller's passkeys, authenticator app and recovery codes",
        description: 'Without secrets: codes and keys are shown only when they are made.',
        response: okResponses(FactorsSchema, 'What the account can prove itself with.', ...CALLER_ONLY),
      },
    },
    async (request, reply) => reply.send(await listFactors(context.pool, callerOf(request))),
  )

  server.post(
    '/me/totp',
    {
      config,
      schema: {
        operationId: 'startTotp',
        tags,
        summary: 'Begins to set up an authenticator app',
        description: 'RFC 6238: SHA-1, six digits, thirty seconds. Nothing asks for a code before `POST /me/totp/confirm`.',
        response: okResponses(TotpSetup, 'The secret, shown once.', ...STEPPED_UP, 'totp_active', ...JSON_BODY),
      },
    },
    async (request, reply) => reply.send(await startTotp(context, callerOf(request))),
  )

  server.post(
    '/me/totp/confirm',
    {
      config,
      schema: {
        operationId: 'confirmTotp',
        tags,
        summary: 'Sets up the authenticator app, by a first code of it',
        description:
          'Every sign-in with the password asks for a second factor from now on. If the account had none, its other sessions end.',
        body: TotpConfirmation,
        response: okResponses(
          TotpConfirmed,
          'Recovery codes, shown once; null where the account has some.',
          ...JSON_BODY,
          ...STEPPED_UP,
          'invalid_second_factor',
        ),
      },
    },
    async (request, reply) => {
      const { recoveryCodes } = await confirmTotp(context, request.body.totp_code, ownChangeOf(request))
      return reply.send({ recovery_codes: recoveryCodes })
    },
  )

  server.delete(
    '/me/totp',
    {
      config,
      schema: {
        operationId: 'removeTotp',
        tags,
        summary: 'Removes the authenticator app',
        description: 'Ends the other sessions. With the last second factor the recovery codes go.',
        response: noContentResponses('The app is removed.', ...STEPPED_UP, 'not_found', ...JSON_BODY),
      },
    },
    async (request, reply) => {
      await removeTotp(context, ownChangeOf(request))
      return reply.code(204).send(null)
    },
  )

  server.post(
    '/me/passkeys/options',
    {
      config,
      schema: {
        operationId: 'beginPasskeyRegistration',
        tags,
        summary: 'Begins to register a passkey',
        description: 'The challenge is valid for five minutes, once, for this session.',
        response: okResponses(NewPasskeyRequest, 'What the browser is given.', ...STEPPED_UP, ...JSON_BODY),
      },
    },
    async (request, reply) => reply.send(await askForNewPasskey(context, callerOf(request))),
  )

  server.post(
    '/me/passkeys',
    {
      config,
      schema: {
        operationId: 'addPasskey',
        tags,
        summary: 'Registers a passkey',
        description:
          'An account can have 20, one for each device or keychain. Customers can sign in with it or with their password; an operator with a passkey needs ' +
          'one, or another second factor, at each sign-in.',
        body: NewPasskey,
        response: {
          201: { ...PasskeyAdded, description: 'The passkey; with recovery codes, shown once, where the account needs some.' },
          ...problemResponses(
            ...JSON_BODY,
            ...STEPPED_UP,
            'invalid_challenge',
            'invalid_second_factor',
            'passkey_taken',
            'too_many_passkeys',
          ),
        },
      },
    },
    async (request, reply) => {
      const { name, passkey: response } = request.body
      const { passkey, recoveryCodes } = await addPasskey(context, { name, passkey: asAttestation(response) }, ownChangeOf(request))
      return reply.code(201).send({ passkey: presentPasskey(passkey), recovery_codes: recoveryCodes })
    },
  )

  server.patch(
    '/me/passkeys/:id',
    {
      config,
      schema: {
        operationId: 'renamePasskey',
        tags,
        summary: "Renames one of the caller's passkeys",
        description: 'The name is for the list of passkeys only: the device or keychain keeps its own.',
        params: PasskeyParams,
        body: PasskeyChange,
        response: okResponses(PasskeySchema, 'The renamed passkey.', ...JSON_BODY, ...STEPPED_UP, 'not_found'),
      },
    },
    async (request, reply) => {
      const passkey = await renamePasskey(context, { id: request.params.id, name: request.body.name }, ownChangeOf(request))
      return reply.send(presentPasskey(passkey))
    },
  )

  server.delete(
    '/me/passkeys/:id',
    {
      config,
      schema: {
        operationId: 'removePasskey',
        tags,
        summary: "Removes one of the caller's passkeys",
        description: 'Ends the other sessions. With the last second factor the recovery codes go. The last way to sign in stays.',
        params: PasskeyParams,
        response: noContentResponses('The passkey is removed.', ...STEPPED_UP, 'not_found', 'last_sign_in', ...JSON_BODY),
      },
    },
    async (request, reply) => {
      await removePasskey(context, request.params.id, ownChangeOf(request))
      return reply.code(204).send(null)
    },
  )

  server.post(
    '/me/recovery-codes',
    {
      config,
      schema: {
        operationId: 'renewRecoveryCodes',
        tags,
        summary: 'Replaces the recovery codes',
        description: 'The earlier codes stop working.',
        response: okResponses(RecoveryCodes, 'The codes, shown once.', ...STEPPED_UP, 'not_found', ...JSON_BODY),
      },
    },
    async (request, reply) => {
      const { recoveryCodes } = await renewRecoveryCodes(context, ownChangeOf(request))
      return reply.send({ recovery_codes: recoveryCodes })
    },
  )
}
