<?php
/** Stands for the shop's encryption: what is stored begins with "stored:". */
declare(strict_types=1);

namespace Stockhold\Reservation\Test\Support;

use Magento\Framework\Encryption\EncryptorInterface;

final class Encryptor implements EncryptorInterface
{
    public function encrypt($data)
    {
        return "stored:{$data}";
    }

    public function decrypt($data)
    {
        return str_starts_with((string)$data, 'stored:') ? substr((string)$data, strlen('stored:')) : '';
    }
}
