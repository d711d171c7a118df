import { readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { farFromMidnight } from '../test/midnight.ts'
import type { Fault } from './fault.ts'
import type { Round } from './round.ts'

const FILES = 5
const STEPS = ['before claim', 'after claim', 'before link', 'after link', 'before delete', 'after delete']

/** Lake files with a flipped bit, truncated or deleted, and a repair that dies. */
export const DAMAGED_LAKE_FAULT: Fault = {
  name: 'lake-damaged',
  title: 'lake files with a flipped bit, cut off, and deleted; kill -9 of lake repair around a step, twice, beside the writer',
  async run(round, orders) {
    await round.survive('stream,email,lake')
    await farFromMidnight()
    for (let file = 0; file < FILES; file++) {
      await round.shop.trade(Math.ceil(orders / FILES))
      await round.drain()
    }
    const start = Math.floor(round.random() * STEPS.length)
    for (const index of [start, start + 1]) {
      damageFiles(round)
      if ((await round.verify()).findings.length === 0) throw new Error('storefront verify has found no damage')
      const dying = round.repair({ FAULT: STEPS[index % STEPS.length] ?? '' })
      await Promise.all([dying.ended, round.shop.trade(1)])
      if (dying.child.signalCode !== 'SIGKILL') throw new Error(`the repair was over before it died ${STEPS[index % STEPS.length]}`)
    }
    await Promise.all([round.repair().ended, round.repair().ended])
    await round.repair().ended
    await round.shop.trade(3)
  },
}

/** Flips a random bit of one undamaged file, truncates another at a random place, and deletes a third. */
function damageFiles(round: Round): void {
  const folder = join(round.lake, 'orders')
  const names = (readdirSync(folder, { recursive: true }) as string[]).filter((name) => name.endsWith('.parquet'))
  const paths = names.map((name) => join(folder, name)).sort(() => round.random() - 0.5)
  const [flipped = '', cut = '', deleted = ''] = paths
  const bytes = readFileSync(flipped)
  const offset = Math.floor(round.random() * bytes.length)
  bytes[offset] = (bytes[offset] ?? 0) ^ (1 << Math.floor(round.random() * 8))
  writeFileSync(flipped, bytes)
  truncateSync(cut, Math.floor(round.random() * readFileSync(cut).length))
  rmSync(deleted)
}
