import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readConfig } from '../src/config.ts'
import { eventually } from './eventually.ts'
import { NO_NATS, startNatsServer } from './nats-server.ts'
import { startStore } from './store.ts'

interface Step {
  at: string
  published_at: string | null
  mail: { status: string } | null
  lake_at: string | null
}

test('the timeline reports each step of an order also when the topic is in NATS', { skip: NO_NATS }, async (t) => {
  const nats = await startNatsServer(t)
  const settings = readConfig({ NATS_URL: nats.url }).nats
  const store = await startStore(t, { roles: ['api', 'stream', 'email', 'lake'], lakeFlushSeconds: 1, nats: settings })
  const { token } = await store.register()
  const { id } = await store.addProduct({ stock: 5 })
  const placed = await store.call('POST', '/orders', { token, body: { items: [{ product_id: id, quantity: 2 }] } })
  const isComplete = ({ published_at, mail, lake_at }: Step) => published_at !== null && mail?.status === 'sent' && lake_at !== null
  const [step] = await eventually(
    async () => {
      const read = (await store.call('GET', `/orders/${placed.json.id}`, { token })).json.timeline as Step[]
      return read.every(isComplete) && read
    },
    { what: 'a timeline without gaps' },
  )
  assert.ok(step !== undefined && step.at <= `${step.published_at}` && `${step.published_at}` <= `${step.lake_at}`)
})
