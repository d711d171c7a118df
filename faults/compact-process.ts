import { hookLakeSteps } from './lake-hooks.ts'

// `storefront lake maintain`, which may kill itself at a step of lake-hooks.ts.
const { FAULT = '', FAULT_AFTER = '0' } = process.env
let remaining = Number(FAULT_AFTER)
hookLakeSteps((step) => {
  if (step === FAULT && remaining-- <= 0) process.kill(process.pid, 'SIGKILL')
})

const { openLake } = await import('../src/app/open-lake.ts')
const { readConfig } = await import('../src/config.ts')
const { maintainLake } = await import('../src/lake/maintain-lake.ts')
const { withFreeLakeLock } = await import('../src/lake/lake-lock.ts')

const config = readConfig()
const store = await openLake(config)
const { failures } = await withFreeLakeLock(config.databaseAddresses?.api ?? '', () => maintainLake({ store }))
if (failures.length > 0) throw new Error(failures.join('; '))
store.close()
