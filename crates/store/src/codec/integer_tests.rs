//! Integers have one form each, and an optional field that is 0 is left out.

use super::{DecodeError, Reader, put_u64};

#[test]
fn integers_have_one_form() {
    let read = |bytes: &[u8]| {
        let mut reader = Reader::new(bytes);
        let value = reader.u64()?;
        reader.finish()?;
        Ok::<_, DecodeError>(value)
    };
    for value in [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, u64::from(u32::MAX), 1 << 63, u64::MAX] {
        let mut bytes = Vec::new();
        put_u64(&mut bytes, value);
        assert_eq!(read(&bytes), Ok(value));
    }
    assert!(read(&[0x80, 0x00]).is_err(), "a zero that is longer than it need be");
    assert!(read(&[0x81, 0x80, 0x00]).is_err(), "a one that is longer than it need be");
    assert!(read(&[0xff; 10]).is_err(), "more than 64 bits");
    assert!(read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]).is_err(), "65 bits");
}

#[test]
fn an_optional_number_is_not_written_as_zero() {
    let read = |bytes: &[u8]| Reader::new(bytes).positive_u32();
    assert!(read(&[0]).is_err(), "its record would have two forms");
    assert_eq!(read(&[1]), Ok(1));
    assert!(read(&[0x80, 0x80, 0x80, 0x80, 0x10]).is_err(), "33 bits");
}
