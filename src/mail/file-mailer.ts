import { randomUUID } from 'node:crypto'
import { mkdir, open, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { hostOf, type Mail, type Mailer, type Sender, toMessage } from './mailer.ts'

// RFC 5322, section 2.1.1.
const MAX_LINE_BYTES = 998

const FILES_AT_ONCE = 16

/**
 * Writes each mail to the file `<event id>.eml` (RFC 5322) instead of sending it. A file is complete when it becomes
 * visible, and it is on disk when `send` returns. Repeating a mail replaces its file. A missing `directory` is created.
 */
export function createFileMailer({ directory, ...sender }: { directory: string } & Sender): Mailer {
  hostOf(sender.from)
  return {
    connections: FILES_AT_ONCE,
    async send(mail) {
      // Imported for the first mail, so a start does not wait.
      const { createTransport } = await import('nodemailer')
      const composer = createTransport({ streamTransport: true, buffer: true, newline: 'windows' })
      const { message } = await composer.sendMail({ ...toMessage(mail, sender), ...readableText(mail) })
      await mkdir(directory, { recursive: true, mode: 0o700 })
      await writeWhole(directory, fileName(mail), message as Buffer)
    },
    async close() {},
  }
}

/**
 * Returns the text unencoded, because quoted-printable would break a token or link over two lines. Empty if a line is
 * too long for RFC 5322.
 */
function readableText({ text }: Mail): { text?: { raw: string } } {
  const lines = text.split(/\r?\n/)
  if (lines.some((line) => Buffer.byteLength(line) > MAX_LINE_BYTES)) return {}
  return { text: { raw: ['Content-Type: text/plain; charset=utf-8', 'Content-Transfer-Encoding: 8bit', '', ...lines].join('\r\n') } }
}

function fileName({ eventId }: Mail): string {
  if (!/^[\w-][\w.-]{0,199}$/.test(eventId)) throw new Error('the event id does not fit a file name')
  return `${eventId}.eml`
}

async function writeWhole(directory: string, name: string, content: Buffer): Promise<void> {
  const temporary = join(directory, `.${name}.${randomUUID()}`)
  try {
    await using file = await open(temporary, 'wx', 0o600)
    await file.writeFile(content)
    await file.sync()
    await rename(temporary, join(directory, name))
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
  // Syncing the folder makes the file's new name durable.
  await using folder = await open(directory, 'r')
  await folder.sync()
}
