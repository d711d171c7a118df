// Exit status 0 when the process of this container answers on its operations port, or has none.
const { OPS_PORT, OPS_HOST } = process.env
if (OPS_PORT === 'off') process.exit(0)
const address = !OPS_HOST || ['0.0.0.0', '::'].includes(OPS_HOST) ? 'localhost' : OPS_HOST
const host = address.includes(':') ? `[${address}]` : address
const answer = await fetch(`http://${host}:${OPS_PORT || 9464}/livez`, { signal: AbortSignal.timeout(4_000) }).catch(() => null)
process.exit(answer?.ok ? 0 : 1)
