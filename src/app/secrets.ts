import { createSealing } from '../auth/sealed.ts'
import type { Config } from '../config.ts'
import { dataFolder, readOrCreateSecret } from '../db/data-folder.ts'
import type { Sealing } from '../pipeline/sealing.ts'

/** What seals secrets at rest: the setting, or with the embedded store the one that is kept in its folder. */
export function secretOf({ secret, dataDir }: Config): string {
  return secret ?? readOrCreateSecret(dataFolder(dataDir), 'secret')
}

/** Seals the secrets that webhooks are signed with. */
export function createWebhookSealing(secret: string): Sealing {
  return createSealing(secret, 'webhook secret')
}
