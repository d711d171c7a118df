import { type Static, Type } from 'typebox'

export const TrackingSchema = Type.Object(
  {
    carrier: Type.String({ minLength: 1, maxLength: 100 }),
    number: Type.String({ minLength: 1, maxLength: 100, description: "The carrier's number of the parcel." }),
    url: Type.Optional(
      // RFC 3986: a URL is ASCII without spaces. Other characters are percent-encoded, and host names use their ASCII
      // form.
      Type.String({
        maxLength: 2_000,
        pattern: '^https?://[!-~]+$',
        'x-must': 'be an address that begins with https:// or http://, without blanks and letters beyond ASCII',
        description: 'The page that shows the parcel, as an absolute http or https URL.',
      }),
    ),
  },
  {
    title: 'Tracking',
    additionalProperties: false,
    description: 'How the customer can follow the parcel. Only for goods that are shipped.',
  },
)
export type Tracking = Static<typeof TrackingSchema>

/** Id of a move's cause in the system that caused it. */
export const ReferenceSchema = Type.String({
  minLength: 1,
  maxLength: 200,
  description: 'The id of the cause of the change, such as a payment or a parcel. The customer can see it.',
})
