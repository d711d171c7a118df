import { hookLakeSteps } from './lake-hooks.ts'

// `storefront lake compact` of every day, which may kill itself at a step of lake-hooks.ts.
const { FAULT = '', FAULT_AFTER = '0' } = process.env
let remaining = Number(FAULT_AFTER)
hookLakeSteps((step) => {
  if (step === FAULT && remaining-- <= 0) process.kill(process.pid, 'SIGKILL')
})

const { openLake } = await import('../src/app/open-lake.ts')
const { readConfig } = await import('../src/config.ts')
const { compactLake } = await import('../src/lake/compact-lake.ts')
const { writeDerivedTables } = await import('../src/lake/iceberg/write-derived-tables.ts')
const { withLakeLock } = await import('../src/lake/lake-lock.ts')

const config = readConfig()
const store = await openLake(config)
await withLakeLock(config.databaseAddresses?.api ?? '', async () => {
  await compactLake({ store, isWanted: () => true })
  await writeDerivedTables(store)
})
store.close()
