import { hookLakeSteps } from './lake-hooks.ts'

// `storefront lake repair`, which may kill itself at a step of lake-hooks.ts.
const { FAULT = '' } = process.env
hookLakeSteps((step) => {
  if (step === FAULT) process.kill(process.pid, 'SIGKILL')
})

const { default: pino } = await import('pino')
const { createTopic } = await import('../src/app/create-topic.ts')
const { openLake } = await import('../src/app/open-lake.ts')
const { readConfig } = await import('../src/config.ts')
const { createPool } = await import('../src/db/pool.ts')
const { LakeBusy } = await import('../src/lake/lake-lock.ts')
const { repairLake } = await import('../src/audit/replay/repair-lake.ts')

const config = readConfig()
const url = config.databaseAddresses?.api ?? ''
const logger = pino({ level: 'silent' })
const pool = createPool({ url, size: 2, applicationName: 'lake-repair', onError: () => {} })
const topic = await createTopic(config, { pool, url, logger })
const store = await openLake(config)
try {
  await repairLake({ pool, url, store, topic, now: () => new Date() })
} catch (error) {
  // One of two simultaneous repairs is refused.
  if (!(error instanceof LakeBusy)) throw error
} finally {
  store.close()
  await topic.stop()
  await pool.end()
}
