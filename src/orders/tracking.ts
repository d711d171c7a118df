import { type Static, Type } from 'typebox'
import { AppError } from '../errors.ts'
import { isWebAddress } from './events.ts'

/** How a customer follows a parcel. */
export const TrackingSchema = Type.Object(
  {
    carrier: Type.String({ minLength: 1, maxLength: 100 }),
    number: Type.String({ minLength: 1, maxLength: 100, description: "The carrier's number of the parcel." }),
    url: Type.Optional(
      // RFC 3986: a URL is ASCII without spaces; other characters come percent-encoded, and host names in their ASCII form.
      Type.String({
        maxLength: 2_000,
        pattern: '^https?://[!-~]+$',
        description: 'The page that shows the parcel: absolute, http or https.',
      }),
    ),
  },
  { additionalProperties: false, description: 'How the customer follows the parcel. Only of a move to `shipped`.' },
)
export type Tracking = Static<typeof TrackingSchema>

/** The id of what caused a move, in the system that has it. */
export const ReferenceSchema = Type.String({
  minLength: 1,
  maxLength: 200,
  description: 'The id of what caused the move, such as a payment or a parcel. The customer can see it.',
})

/** Throws `invalid_body` for a parcel of an order that is not shipped, or a URL that leads nowhere on the web. */
export function assertTracking(to: string, tracking: Tracking | null): void {
  if (tracking === null) return
  if (to !== 'shipped') throw refuse('#/tracking', 'is for orders that are shipped')
  if (tracking.url !== undefined && !isWebAddress(tracking.url)) throw refuse('#/tracking/url', 'must be an absolute http or https URL')
}

function refuse(pointer: string, detail: string): AppError {
  return new AppError('invalid_body', 'The body is not acceptable.', { errors: [{ pointer, detail }] })
}
