import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { onCleanup } from '../../test/cleanup.ts'
import { insertUser, startMailSubscriber, waitForDelivery } from '../../test/mail-harness.ts'
import { makeOrderEvent } from '../../test/order-event-factory.ts'
import { startScriptedSmtpServer } from '../../test/scripted-smtp-server.ts'

const WORKER = fileURLToPath(new URL('../../test/mail-worker-process.ts', import.meta.url))

function startWorker(t: TestContext, url: string, smtpUrl: string): ChildProcess {
  const worker = spawn(process.execPath, [WORKER, url, smtpUrl], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  onCleanup(t, async () => {
    if (worker.exitCode !== null || worker.signalCode !== null) return
    worker.kill('SIGKILL')
    await once(worker, 'exit')
  })
  return worker
}

test('a mail whose worker is killed during sending is sent by another worker as the same message', async (t) => {
  const { db, deliveries, publish } = await startMailSubscriber(t)
  // The workers are the other processes.
  await deliveries.stop()
  const server = await startScriptedSmtpServer(t)
  const event = makeOrderEvent({ order: { user_id: await insertUser(db, 'ada@example.com') } })
  server.answerOnce('body', new Promise(() => {}))
  const received = server.nextBody()
  await publish([event])
  const worker = startWorker(t, db.url, server.url)
  await received
  worker.kill('SIGKILL')
  await once(worker, 'exit')
  const killed = performance.now()
  startWorker(t, db.url, server.url)
  const sent = await waitForDelivery(db, event, 'sent', 150_000)
  t.diagnostic(`sent again ${Math.round(performance.now() - killed)} ms after the kill`)
  assert.equal(sent.attempts, 2)
  assert.deepEqual(server.messageIds, Array(2).fill(`<${event.id}@store.example>`))
})
