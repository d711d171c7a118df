// Exit status 0 when the process of this container answers on its operations port.
const { OPS_PORT = '9464' } = process.env
const answer = await fetch(`http://127.0.0.1:${OPS_PORT}/livez`, { signal: AbortSignal.timeout(4_000) }).catch(() => null)
process.exit(answer?.ok ? 0 : 1)
