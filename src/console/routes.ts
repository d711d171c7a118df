import type { AuthContext } from '../auth/context.ts'
import type { Pool } from '../db/pool.ts'
import { findForeignHost } from '../http/host.ts'
import type { HttpServer } from '../http/http-server.ts'
import type { Catalogue } from '../lake/iceberg/catalogue.ts'
import type { LakeQueries } from '../lake/run-query.ts'
import { auditRoutes } from './audit-routes.ts'
import type { AuditRunner } from './audit-runner.ts'
import { figuresRoutes } from './figures-routes.ts'
import { icebergRoutes } from './iceberg-routes.ts'
import { lakeRoutes } from './lake-routes.ts'
import { type MailRoutesOptions, mailRoutes } from './mail-routes.ts'
import { mailTemplateRoutes } from './mail-template-routes.ts'
import { consolePageRoutes } from './page-routes.ts'
import { pipelineRoutes } from './pipeline-routes.ts'
import type { Pipeline } from './pipeline-status.ts'
import { consoleSessionRoutes } from './session-routes.ts'
import { type WebhookRoutesOptions, webhookRoutes } from './webhook-routes.ts'

/** Parts of the console that the process starts and stops. */
export interface ConsoleParts {
  pipeline: Pipeline
  audits: AuditRunner
}

export interface ConsoleOptions extends ConsoleParts {
  pool: Pool
  auth: AuthContext
  now: () => Date
  baseUrl: string
  basePath: string
  timeZone: string
  allowedHosts: readonly string[]
  mails: Omit<MailRoutesOptions, 'pool'>
  webhooks: Omit<WebhookRoutesOptions, 'pool' | 'now'>
  lakeQueries: LakeQueries
  lakeCatalogue: Catalogue
}

/**
 * The console: its page, its sessions, and the operators' calls that the page uses. The API's document has these calls,
 * for other tools.
 */
export function consoleRoutes(server: HttpServer, options: ConsoleOptions): void {
  const { pool, now, timeZone, auth, baseUrl, basePath, allowedHosts } = options
  const { pipeline, audits, mails, webhooks, lakeQueries, lakeCatalogue } = options
  server.register(async (scope) => {
    scope.addHook('onRequest', (request, _reply, done) => done(findForeignHost(request, { baseUrl, allowedHosts }) ?? undefined))
    consolePageRoutes(scope)
    consoleSessionRoutes(scope, { auth, baseUrl, basePath, timeZone })
  })
  figuresRoutes(server, { pool, now, timeZone })
  pipelineRoutes(server, { pipeline })
  webhookRoutes(server, { ...webhooks, pool, now })
  auditRoutes(server, { pool, audits, baseUrl })
  mailRoutes(server, { ...mails, pool })
  mailTemplateRoutes(server, mails)
  lakeRoutes(server, { pool, queries: lakeQueries })
  icebergRoutes(server, { catalogue: lakeCatalogue })
}
