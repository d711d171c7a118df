import { AppError } from '../errors.ts'
import { type Authenticate, CALLER, type Caller } from './caller.ts'
import type { HttpServer } from './http-server.ts'

/** Who may call a route: anybody, a caller with a session, operators only. */
export type Access = 'public' | 'caller' | 'admin'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Who may call the route. There is no default: a route without it stops the start. */
    access?: Access
  }
}

const MAY_CALL: Record<Exclude<Access, 'public'>, (caller: Caller) => boolean> = {
  caller: () => true,
  admin: ({ role }) => role === 'admin',
}

/** Closes every route that is not marked `public`: the caller is authenticated before the body is read. */
export function enforceAccess(server: HttpServer, authenticate: Authenticate): void {
  server.decorateRequest(CALLER)
  server.addHook('onRoute', (route) => {
    const access = route.config?.access
    if (access === undefined || (access !== 'public' && !Object.hasOwn(MAY_CALL, access))) {
      throw new Error(`${[route.method].flat().join(', ')} ${route.url} does not say who may call it: set config.access`)
    }
    route.schema = { ...route.schema, security: access === 'public' ? [] : [{ bearer: [] }] }
  })
  server.addHook('onRequest', (request, _reply, done) => {
    const { access } = request.routeOptions.config
    if (access === 'public') return done()
    authenticate(request)
      .then((caller) => {
        // The hook above refuses a route without a mark. If one existed, it would be closed.
        if (access === undefined || !MAY_CALL[access](caller)) throw new AppError('forbidden', 'Only operators may do this.')
        request.setDecorator(CALLER, caller)
      })
      .then(() => done(), done)
  })
}
