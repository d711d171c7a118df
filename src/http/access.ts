import type { FastifyRequest, FastifySchema } from 'fastify'
import { AppError } from '../errors.ts'
import type { Admission } from './admission.ts'
import { type AccountCaller, type Authenticate, anyCallerOf, CALLER, type Caller, hasScope } from './caller.ts'
import type { HttpServer } from './http-server.ts'
import { REALM } from './problem.ts'
import { isScope, type Scope } from './scopes.ts'

/** Anybody, an account with a session, any API key, or an operator or key with a scope. */
export type Access = 'public' | 'caller' | 'key' | Scope

declare module 'fastify' {
  interface FastifyContextConfig {
    access?: Access
    /** A stolen session must not make such a call. */
    stepUp?: StepUp
  }
}

/** Closes every route that is not `public`. Callers are authenticated before the body is read. */
export function enforceAccess(server: HttpServer, authenticate: Authenticate, guard: SessionGuard | null, admission?: Admission): void {
  server.decorateRequest(CALLER)
  server.addHook('onRoute', (route) => {
    const access = route.config?.access
    if (access === undefined || !(access === 'public' || access === 'caller' || access === 'key' || isScope(access))) {
      throw new Error(`${[route.method].flat().join(', ')} ${route.url} does not say who may call it: set config.access`)
    }
    const stepUp = route.config?.stepUp
    if (stepUp !== undefined && (guard === null || access === 'public')) {
      throw new Error(`${[route.method].flat().join(', ')} ${route.url} needs a fresh proof, which nobody checks`)
    }
    const security = access === 'public' ? [] : [{ bearer: [] }]
    route.schema = { ...route.schema, security, ...(isScope(access) ? withScope(route.schema, access) : {}) }
    if (stepUp !== undefined) route.schema = { ...route.schema, ...withStepUp(route.schema, stepUp) }
  })
  server.addHook('onRequest', (request, _reply, done) => {
    const { access, stepUp } = request.routeOptions.config
    if (access === 'public') return done()
    authenticate(request)
      .then((caller) => {
        assertMayCall(caller, access)
        request.setDecorator(CALLER, caller)
        if (caller.kind !== 'account' || guard === null) return undefined
        const prove = () => assertProven(guard, caller, access, stepUp)
        // The proof queries the database, so a customer needs a place. Operators never wait for customers.
        return access === 'caller' && stepUp !== undefined && admission !== undefined ? admission.admit('token', request, prove) : prove()
      })
      .then(() => done(), done)
  })
}

/** Linters know no scopes of bearer tokens (OpenAPI 3.1 §4.8.30), so an extension contains the scope. */
function withScope(schema: FastifySchema | undefined, scope: Scope) {
  const { description } = (schema ?? {}) as { description?: string }
  return { 'x-required-scope': scope, description: [description, `Needs the scope \`${scope}\`.`].filter(Boolean).join(' ') }
}

function withStepUp(schema: FastifySchema | undefined, stepUp: StepUp) {
  const { description } = (schema ?? {}) as { description?: string }
  const who = stepUp === 'always' ? '' : ' of an account with a second factor'
  return {
    'x-step-up': true,
    description: [description, `A session${who} needs a fresh proof: \`POST /auth/step-up\`.`].filter(Boolean).join(' '),
  }
}

async function assertProven(
  guard: SessionGuard,
  caller: AccountCaller,
  access: Access | undefined,
  stepUp: StepUp | undefined,
): Promise<void> {
  if (isScope(access ?? '')) await guard.assertMayUseScopes(caller)
  if (stepUp !== undefined) await guard.assertFreshProof(caller, stepUp)
}

function assertMayCall(caller: Caller, access: Exclude<Access, 'public'> | undefined): void {
  // The start refuses a route without a mark. If one existed, it would be closed.
  if (access === undefined) throw new AppError('forbidden', 'Nobody may do this.')
  if (access === 'caller') {
    if (caller.kind !== 'account') throw new AppError('forbidden', 'This needs the session of an account, and not an API key.')
    return
  }
  if (access !== 'key') assertHasScope(caller, access)
  else if (caller.kind !== 'key') throw new AppError('forbidden', 'This needs an API key, and not the session of an account.')
}

function assertHasScope(caller: Caller, scope: Scope): void {
  if (hasScope(caller, scope)) return
  throw new AppError('forbidden', `This needs the scope ${scope}.`, {
    members: { required_scope: scope },
    // RFC 6750 §3.1
    headers: { 'www-authenticate': `${REALM}, error="insufficient_scope", scope="${scope}"` },
  })
}

export function assertMayUse(request: FastifyRequest, scope: Scope): void {
  assertHasScope(anyCallerOf(request), scope)
}

/** `true` for accounts with a second factor, `always` for all. */
export type StepUp = true | 'always'

/** Implemented by `auth/`. API keys have no session, so their calls need no proof. */
export interface SessionGuard {
  assertMayUseScopes(caller: AccountCaller): Promise<void>
  /** Throws `step_up_required`, or `invalid_token` if the session has ended. */
  assertFreshProof(caller: AccountCaller, when: StepUp): Promise<void>
}
